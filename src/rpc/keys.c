#include "rpc/keys.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "io/module/module.h"
#include "lend/rpc.h"
#include "rpc/keyfile.h"
#include "sys/last_error.h"
#include "sys/rand.h"
#include "sys/secret_memory.h"
#include "util/bits.h"

enum { TEXT_MAX = 1024, KEYS_MAX = 1024, SERVERS_MAX = 64 };

struct key {
	uint64_t id;
	uint8_t psk[LEND_KEY];
	uint8_t of[LEND_DIGEST]; /* digest of the secret that it was derived from; zeros: none */
	uint8_t mac_key[LEND_KEX_MAC_KEY];
	bool accepted; /* peers may prove it */
	bool filed;    /* it is in the file */
	bool has_mac;  /* mac_key is set */
	char tenant[LEND_TENANT_MAX];
};

struct server_key {
	char address[LEND_KEYLINE_WORD];
	uint8_t key[LEND_KEY];
};

/* All keys of the process. Zero in a fork's child, which reads the file again. */
struct key_store {
	struct key key[KEYS_MAX]; /* in the order in which they were added */
	size_t n;
	uint64_t first, of_file; /* id of the key that connects; of the file's first key */
	bool first_filed;        /* first is of the file */
	bool file_read, has_static;
	uint8_t secret[LEND_KEY],
	    public_key[LEND_KEY]; /* the key pair of this server, with has_static */
	struct server_key server[SERVERS_MAX];
	size_t servers;
	uint8_t dummy[LEND_KEX_MAC_KEY];
};

/* lock guards all below; handshakes take it. deriving is taken before lock: one secret at a time is
 * derived, each once, while lock is free. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, deriving = PTHREAD_MUTEX_INITIALIZER;
static const struct lend_seal_ops *seal;
static struct lend_mapping memory;
static struct key_store *store;         /* in memory, while seal is set */
static _Atomic uint32_t generation = 1; /* counts reloads */

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
	rc = lend_secret_map(&memory, sizeof(*store));
	if (rc < 0)
		return rc;
	store = memory.base;
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
	for (size_t i = 0; i < store->n; i++)
		if (store->key[i].id == id)
			return &store->key[i];
	return NULL;
}

/* Finds or adds the entry of this key. 0, or -ENOMEM with lend_why(). */
static int keep_key(uint64_t id, const uint8_t psk[LEND_KEY], struct key **key)
{
	*key = find_key(id);
	if (*key)
		return 0;
	if (store->n == KEYS_MAX)
		return lend_fail(ENOMEM, "a process has at most %d keys; remove some", KEYS_MAX);
	*key = &store->key[store->n++];
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
	for (size_t i = 0; i < store->n; i++)
		if (!memcmp(store->key[i].of, of, LEND_DIGEST))
			return &store->key[i];
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
	int rc;

	if (id_of(line->key) != line->id)
		return lend_fail(EINVAL,
				 "%s:%u: id and key do not match: one of them has a typing error; "
				 "copy the line again",
				 path, number);
	rc = keep_key(line->id, line->key, &k);
	if (rc < 0)
		return rc;
	k->accepted = k->filed = true;
	memcpy(k->tenant, line->word, sizeof(k->tenant));
	if (!store->of_file)
		store->of_file = k->id;
	return 0;
}

static int take_static(const char *path, unsigned number, const struct lend_keyline *line)
{
	memcpy(store->secret, line->key, LEND_KEY);
	store->has_static = seal->dh(line->key, NULL, store->public_key) == 0;
	return store->has_static ? 0
				 : lend_fail(EINVAL,
					     "%s:%u: not a secret key; make one with \"lend "
					     "keygen --static\"",
					     path, number);
}

static int take_server(const char *path, unsigned number, const struct lend_keyline *line)
{
	static const uint8_t any[LEND_KEY] = {1};
	uint8_t shared[LEND_KEY];
	struct server_key *k = &store->server[store->servers];

	if (store->servers == SERVERS_MAX)
		return lend_fail(ENOMEM, "%s:%u: more than %d servers", path, number, SERVERS_MAX);
	if (seal->dh(any, line->key, shared) != 0)
		return lend_fail(EINVAL, "%s:%u: not a public key; copy it again", path, number);
	memcpy(k->address, line->word, sizeof(k->address));
	memcpy(k->key, line->key, LEND_KEY);
	store->servers++;
	return 0;
}

static int take_line(const char *path, unsigned number, const struct lend_keyline *line)
{
	switch (line->kind) {
	case LEND_KEYLINE_PSK:
		return take_psk(path, number, line);
	case LEND_KEYLINE_STATIC:
		return take_static(path, number, line);
	case LEND_KEYLINE_SERVER:
		return take_server(path, number, line);
	case LEND_KEYLINE_NONE:
		break;
	}
	return 0;
}

static int take_text(const char *path, const char *text)
{
	unsigned number = 1;
	int rc = load_seal();

	for (; *text && rc == 0; number++) {
		size_t len = strcspn(text, "\n");
		struct lend_keyline line;
		const char *why = lend_keyfile_parse(text, len, &line);

		rc = why ? lend_fail(EINVAL, "%s:%u: %s", path, number, why)
			 : take_line(path, number, &line);
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

static bool is_named(void)
{
	const char *named = getenv("LEND_KEYS");

	return named && *named;
}

/* Reads the file again, whatever was read before. -ENOENT without lend_why(): there is none, and
 * none is named. */
static int read_again(void)
{
	char path[PATH_MAX], *text;
	bool named = lend_keys_path(path, sizeof(path));
	int rc = lend_keyfile_read(path, &text);

	if (rc == -ENOENT && named)
		return lend_fail(ENOENT, "%s: no such file; make one with \"lend keygen %s\"", path,
				 path);
	if (rc < 0)
		return rc;
	rc = take_text(path, text);
	explicit_bzero(text, LEND_KEYFILE_MAX);
	free(text);
	if (rc == 0)
		store->file_read = true;
	return rc;
}

static int read_file(void)
{
	int rc = store && store->file_read ? 0 : read_again();

	return rc == -ENOENT && !is_named() ? 0 : rc;
}

/* Chooses the key that an endpoint connects with. made: the id of the key of the secret, or else of
 * $LEND_SECRET; 0: neither. */
static int choose_key(const char *secret, uint64_t made, bool usual, uint64_t *id)
{
	bool filed = usual || is_named();
	int rc = filed ? read_file() : 0;

	if (rc < 0 || !store)
		return rc;
	*id = secret || !filed ? 0 : store->of_file;
	if (made) {
		find_key(made)->accepted = true;
		*id = made;
	}
	if (!secret && store->first && (filed || !store->first_filed)) {
		*id = store->first;
	} else if (!store->first && *id) {
		store->first = *id;
		store->first_filed = !made;
	}
	return 0;
}

int lend_keys_first(const char *secret, bool usual, uint64_t *id)
{
	const char *text = secret ? secret : getenv("LEND_SECRET");
	uint64_t made = 0;
	int rc = text && *text ? derive_key(text, &made) : 0;

	*id = 0;
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&lock);
	rc = choose_key(secret, made, usual, id);
	pthread_mutex_unlock(&lock);
	return rc;
}

static struct key *find_accepted(uint64_t id)
{
	struct key *k = store ? find_key(id) : NULL;

	return k && k->accepted ? k : NULL;
}

bool lend_keys_filed(uint64_t id)
{
	bool filed;

	pthread_mutex_lock(&lock);
	filed = store && id && id == store->of_file;
	pthread_mutex_unlock(&lock);
	return filed;
}

bool lend_keys_find(uint64_t id, uint8_t psk[LEND_KEY])
{
	const struct key *k;

	pthread_mutex_lock(&lock);
	k = find_accepted(id);
	if (k)
		memcpy(psk, k->psk, LEND_KEY);
	pthread_mutex_unlock(&lock);
	return k != NULL;
}

bool lend_keys_tenant(uint64_t id, char tenant[LEND_TENANT_MAX])
{
	const struct key *k;

	pthread_mutex_lock(&lock);
	k = find_accepted(id);
	memset(tenant, 0, LEND_TENANT_MAX);
	if (k)
		memcpy(tenant, k->tenant, LEND_TENANT_MAX);
	pthread_mutex_unlock(&lock);
	return k && *tenant;
}

bool lend_keys_akin(uint64_t one, uint64_t other)
{
	const struct key *a, *b;
	bool akin;

	pthread_mutex_lock(&lock);
	a = find_accepted(one);
	b = find_accepted(other);
	akin = a && b && a->filed && b->filed && !strcmp(a->tenant, b->tenant);
	pthread_mutex_unlock(&lock);
	return akin;
}

uint64_t lend_keys_hinted(uint8_t hint)
{
	uint64_t id = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; store && i < store->n && !id; i++)
		if (store->key[i].accepted && (uint8_t)store->key[i].id == hint)
			id = store->key[i].id;
	pthread_mutex_unlock(&lock);
	return id;
}

/* Fills in a shared key and the key of mac1 that it makes. */
static bool put_psk(uint64_t id, struct lend_kex_keys *keys)
{
	struct key *k = find_accepted(id);

	keys->id = id;
	if (!k) {
		if (lend_equal_ct(store->dummy, (uint8_t[LEND_KEX_MAC_KEY]){0},
				  sizeof(store->dummy)))
			lend_random(store->dummy, sizeof(store->dummy));
		memcpy(keys->mac_key, store->dummy, sizeof(keys->mac_key));
		return false;
	}
	if (!k->has_mac)
		lend_kex_mac_key(seal, k->psk, k->mac_key);
	k->has_mac = true;
	memcpy(keys->psk, k->psk, LEND_KEY);
	memcpy(keys->mac_key, k->mac_key, sizeof(keys->mac_key));
	return true;
}

bool lend_keys_exchange(uint64_t id, struct lend_kex_keys *keys)
{
	bool found;

	memset(keys, 0, sizeof(*keys));
	pthread_mutex_lock(&lock);
	found = store && put_psk(id, keys);
	pthread_mutex_unlock(&lock);
	return found;
}

bool lend_keys_own(struct lend_kex_keys *keys)
{
	bool found;

	pthread_mutex_lock(&lock);
	found = store && store->has_static;
	if (found) {
		memcpy(keys->server, store->public_key, LEND_KEY);
		memcpy(keys->secret, store->secret, LEND_KEY);
		lend_kex_mac_key(seal, keys->server, keys->mac_key);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

uint32_t lend_keys_server(const char *address)
{
	uint32_t found = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; store && i < store->servers && !found; i++)
		if (!strcmp(store->server[i].address, address))
			found = (uint32_t)i + 1;
	pthread_mutex_unlock(&lock);
	return found;
}

bool lend_keys_of_server(uint32_t server, struct lend_kex_keys *keys)
{
	bool found;

	pthread_mutex_lock(&lock);
	found = store && server && server <= store->servers;
	if (found) {
		memcpy(keys->server, store->server[server - 1].key, LEND_KEY);
		lend_kex_mac_key(seal, keys->server, keys->mac_key);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

uint32_t lend_keys_generation(void)
{
	return atomic_load_explicit(&generation, memory_order_relaxed);
}

/* Removes the keys that were only in the file and are not there any more. */
static void drop_unfiled(void)
{
	static const uint8_t none[LEND_DIGEST];
	size_t kept = 0;

	for (size_t i = 0; i < store->n; i++)
		if (store->key[i].filed || memcmp(store->key[i].of, none, sizeof(none)) != 0)
			store->key[kept++] = store->key[i];
	explicit_bzero(store->key + kept, (store->n - kept) * sizeof(store->key[0]));
	store->n = kept;
}

/* Takes lock. A faulty file changes nothing. */
static int reload_file(void)
{
	struct key_store *before = malloc(sizeof(*before));
	int rc;

	if (!before)
		return lend_fail(ENOMEM, "no memory to read the keys again");
	memcpy(before, store, sizeof(*before));
	for (size_t i = 0; i < store->n; i++)
		store->key[i].filed = false;
	store->of_file = 0;
	store->servers = 0;
	store->has_static = false;
	rc = read_again();
	if (rc == -ENOENT && !is_named())
		rc = 0;
	if (rc < 0) {
		memcpy(store, before, sizeof(*before));
	} else {
		drop_unfiled();
		if (store->first_filed)
			store->first = store->of_file;
	}
	explicit_bzero(before, sizeof(*before));
	free(before);
	return rc;
}

int lend_reload_keys(void)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = load_seal();
	if (rc == 0)
		rc = reload_file();
	if (rc == 0)
		atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
	pthread_mutex_unlock(&lock);
	return rc;
}

int lend_keys_make(uint64_t *id)
{
	char made[PATH_MAX];
	int rc = lend_keys_first(NULL, true, id);

	if (rc < 0 || *id)
		return rc;
	rc = lend_keygen(NULL, made, sizeof(made));
	if (rc == 0 || rc == -EEXIST)
		return lend_keys_first(NULL, true, id);
	(void)lend_keys_path(made, sizeof(made));
	return lend_fail(-rc,
			 "sessions on a network are encrypted, and %s cannot be made: %s; set "
			 "LEND_KEYS to a file of \"lend keygen FILE\", or LEND_LEVEL=none",
			 *made ? made : "without HOME a file of keys", strerror(-rc));
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
