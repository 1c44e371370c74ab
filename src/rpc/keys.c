#include "rpc/keys.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/module/module.h"
#include "rpc/keyfile.h"
#include "sys/last_error.h"

enum { TEXT_MAX = 1024 };

struct key {
	uint64_t id;
	uint8_t psk[LEND_KEY];
	uint8_t of[LEND_DIGEST]; /* digest of the secret that it was derived from; zeros: none */
	bool accepted;           /* peers may prove it */
};

/* lock guards all below; handshakes take it. deriving is taken before lock: one secret at a time is
 * derived, each once, while lock is free. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, deriving = PTHREAD_MUTEX_INITIALIZER;
static const struct lend_seal_ops *seal;
static struct key *keys; /* in the order in which they were added */
static size_t n_keys, cap;
static uint64_t first, of_file; /* id of the key that connects; of the file's first key */
static bool file_read;

static int load_seal(void)
{
	void *found;
	int rc;

	if (seal)
		return 0;
	rc = lend_module_find("lend_seal.so", "libsodium-dev", "lend_seal_ops", &found);
	if (rc < 0)
		return rc;
	if (((const struct lend_seal_ops *)found)->start() < 0)
		return lend_fail(ENODEV, "lend_seal.so: libsodium does not start");
	seal = found;
	return 0;
}

int lend_keys_seal(const struct lend_seal_ops **ops)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = load_seal();
	*ops = seal;
	pthread_mutex_unlock(&lock);
	return rc;
}

static uint64_t id_of(const uint8_t psk[LEND_KEY])
{
	uint8_t digest[LEND_DIGEST];
	uint64_t id;

	seal->sha256(psk, LEND_KEY, digest);
	memcpy(&id, digest, sizeof(id));
	return id;
}

static struct key *find_key(uint64_t id)
{
	for (size_t i = 0; i < n_keys; i++)
		if (keys[i].id == id)
			return &keys[i];
	return NULL;
}

static int grow_keys(void)
{
	struct key *more = calloc(2 * cap + 4, sizeof(*more));

	if (!more)
		return lend_fail(ENOMEM, "no memory for another key");
	if (keys) {
		memcpy(more, keys, n_keys * sizeof(*more));
		explicit_bzero(keys, n_keys * sizeof(*keys));
	}
	free(keys);
	keys = more;
	cap = 2 * cap + 4;
	return 0;
}

/* Finds or adds the entry of this key. 0, or -ENOMEM with lend_why(). */
static int keep_key(uint64_t id, const uint8_t psk[LEND_KEY], struct key **key)
{
	*key = find_key(id);
	if (*key)
		return 0;
	if (n_keys == cap && grow_keys() < 0)
		return -ENOMEM;
	*key = &keys[n_keys++];
	(*key)->id = id;
	memcpy((*key)->psk, psk, LEND_KEY);
	return 0;
}

/* Derives a key from a secret by Argon2id. The salt is the same in all processes of a cluster, and
 * differs between clusters. */
static int stretch_secret(const char *secret, size_t len, uint8_t psk[LEND_KEY])
{
	const char *cluster = getenv("LEND_CLUSTER");
	char text[TEXT_MAX];
	uint8_t salt[LEND_DIGEST];
	int n = snprintf(text, sizeof(text), "lend secret %s", cluster ? cluster : "");

	if (n < 0 || (size_t)n >= sizeof(text))
		return lend_fail(EINVAL, "LEND_CLUSTER: give less than 1,000 characters");
	seal->sha256(text, (size_t)n, salt);
	return seal->stretch(secret, len, salt, psk) < 0
		   ? lend_fail(ENOMEM, "deriving a key from a secret takes 64 MiB of memory; free "
				       "some, or give a key of 64 hex digits (lend keygen)")
		   : 0;
}

static struct key *find_made(const uint8_t of[LEND_DIGEST])
{
	for (size_t i = 0; i < n_keys; i++)
		if (!memcmp(keys[i].of, of, LEND_DIGEST))
			return &keys[i];
	return NULL;
}

/* Takes lock. *id: of the key of the secret with this digest, 0 if it is not derived yet. */
static int look_up(const char *secret, size_t len, uint8_t digest[LEND_DIGEST], uint64_t *id)
{
	int rc;

	*id = 0;
	pthread_mutex_lock(&lock);
	rc = load_seal();
	if (rc == 0) {
		const struct key *key;

		seal->sha256(secret, len, digest);
		key = find_made(digest);
		*id = key ? key->id : 0;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* Takes lock. */
static int keep_made(const uint8_t digest[LEND_DIGEST], const uint8_t psk[LEND_KEY], uint64_t *id)
{
	struct key *key;
	int rc;

	pthread_mutex_lock(&lock);
	*id = id_of(psk);
	rc = keep_key(*id, psk, &key);
	if (rc == 0)
		memcpy(key->of, digest, LEND_DIGEST);
	pthread_mutex_unlock(&lock);
	return rc;
}

static int make_key(const char *secret, size_t len, const uint8_t digest[LEND_DIGEST], uint64_t *id)
{
	uint8_t psk[LEND_KEY];
	int rc = lend_keyfile_hex(secret, len, psk) ? 0 : stretch_secret(secret, len, psk);

	if (rc == 0)
		rc = keep_made(digest, psk, id);
	explicit_bzero(psk, sizeof(psk));
	return rc;
}

/* Derives the key of a secret, once, and returns its id. Takes lock, but not while Argon2id runs.
 * 0, or -errno with lend_why(). */
static int derive_key(const char *secret, uint64_t *id)
{
	uint8_t digest[LEND_DIGEST];
	size_t len = strlen(secret);
	int rc;

	pthread_mutex_lock(&deriving);
	rc = look_up(secret, len, digest, id);
	if (rc == 0 && !*id)
		rc = make_key(secret, len, digest, id);
	pthread_mutex_unlock(&deriving);
	return rc;
}

static int take_psk(const char *path, unsigned number, const struct lend_keyline *line)
{
	struct key *k;
	int rc = load_seal();

	if (rc < 0)
		return rc;
	if (id_of(line->key) != line->id)
		return lend_fail(EINVAL,
				 "%s:%u: id and key do not match: one of them has a typing error; "
				 "copy the line again",
				 path, number);
	rc = keep_key(line->id, line->key, &k);
	if (rc < 0)
		return rc;
	k->accepted = true;
	if (!of_file)
		of_file = k->id;
	return 0;
}

static int take_text(const char *path, const char *text)
{
	unsigned number = 1;
	int rc = 0;

	for (; *text && rc == 0; number++) {
		size_t len = strcspn(text, "\n");
		struct lend_keyline line;
		const char *why = lend_keyfile_parse(text, len, &line);

		if (why)
			rc = lend_fail(EINVAL, "%s:%u: %s", path, number, why);
		else if (line.kind == LEND_KEYLINE_PSK)
			rc = take_psk(path, number, &line);
		explicit_bzero(&line, sizeof(line));
		text += len + (text[len] == '\n');
	}
	return rc;
}

bool lend_keys_path(char *path, size_t size)
{
	const char *named = getenv("LEND_KEYS"), *config = getenv("XDG_CONFIG_HOME"),
		   *home = getenv("HOME");

	if (named && *named)
		(void)snprintf(path, size, "%s", named);
	else if (config && *config)
		(void)snprintf(path, size, "%s/lend/keys", config);
	else if (home && *home)
		(void)snprintf(path, size, "%s/.config/lend/keys", home);
	else
		*path = 0;
	return named && *named;
}

static int read_file(void)
{
	char path[PATH_MAX], *text;
	bool named = lend_keys_path(path, sizeof(path));
	int rc;

	if (file_read)
		return 0;
	rc = lend_keyfile_read(path, &text);
	if (rc == -ENOENT && named)
		return lend_fail(ENOENT, "%s: no such file; make one with \"lend keygen %s\"", path,
				 path);
	if (rc == 0) {
		rc = take_text(path, text);
		explicit_bzero(text, LEND_KEYFILE_MAX);
		free(text);
	}
	file_read = rc == 0 || rc == -ENOENT;
	return rc == -ENOENT ? 0 : rc;
}

/* Chooses the key that an endpoint connects with. made: the id of the key of the secret, or else of
 * $LEND_SECRET; 0: neither. */
static int choose_key(const char *secret, uint64_t made, uint64_t *id)
{
	int rc = read_file();

	if (rc < 0)
		return rc;
	*id = secret ? 0 : of_file;
	if (made) {
		find_key(made)->accepted = true;
		*id = made;
	}
	if (!secret && first)
		*id = first;
	else if (!first)
		first = *id;
	return 0;
}

int lend_keys_first(const char *secret, uint64_t *id)
{
	const char *text = secret ? secret : getenv("LEND_SECRET");
	uint64_t made = 0;
	int rc = text && *text ? derive_key(text, &made) : 0;

	*id = 0;
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&lock);
	rc = choose_key(secret, made, id);
	pthread_mutex_unlock(&lock);
	return rc;
}

bool lend_keys_find(uint64_t id, uint8_t psk[LEND_KEY])
{
	const struct key *k;

	pthread_mutex_lock(&lock);
	k = find_key(id);
	if (k && !k->accepted)
		k = NULL;
	if (k)
		memcpy(psk, k->psk, LEND_KEY);
	pthread_mutex_unlock(&lock);
	return k != NULL;
}

uint64_t lend_keys_id(const char *secret)
{
	uint64_t id;

	return derive_key(secret, &id) < 0 ? 0 : id;
}

int lend_keys_add(const char *secret)
{
	uint64_t id;
	int rc = derive_key(secret, &id);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&lock);
	find_key(id)->accepted = true;
	pthread_mutex_unlock(&lock);
	return 0;
}
