#include "cn/life.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	LIST_ENTRY(entry) link;
	char home[CN_HOME_MAX], name[CN_HOME_MAX];
	uint32_t users, names; /* clients that use the address; names that it has had */
	bool dialled;
	struct entry *twin; /* the entry with its life and key; NULL: itself */
	uint64_t life;      /* 0: none */
	uint8_t key[LEND_MEMOP_KEY];
	/* From the last reply to HELLO. */
	uint32_t id, epoch;
	uint8_t worker;
	char text[LEND_MEMOP_TEXT_MAX + 1];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, entry) entries = LIST_HEAD_INITIALIZER(entries);

void cn_life_home(const struct lend_ep *ep, const char *address, char home[CN_HOME_MAX])
{
	uint64_t key = lend_key_id(ep);

	strcpy(home, address);
	if (key)
		(void)snprintf(home + strlen(home), 18, "\n%016" PRIx64, key);
}

static struct entry *find_entry(const char *home)
{
	struct entry *e;

	LIST_FOREACH(e, &entries, link)
	if (!strcmp(e->home, home))
		return e;
	return NULL;
}

static struct entry *root_of(struct entry *e)
{
	return e->twin ? e->twin : e;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* Forgets all lives in a fork's child: it is another process and opens lives of its own. */
static void in_child(void)
{
	struct entry *e;

	LIST_FOREACH(e, &entries, link)
	e->life = 0;
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	(void)pthread_atfork(before_fork, after_fork, in_child);
}

int cn_life_join(const char *home)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct entry *e;

	(void)pthread_once(&once, watch_forks);
	pthread_mutex_lock(&lock);
	e = find_entry(home);
	if (!e && (e = calloc(1, sizeof(*e)))) {
		strcpy(e->home, home);
		strcpy(e->name, home);
		LIST_INSERT_HEAD(&entries, e, link);
	}
	if (e)
		e->users++;
	pthread_mutex_unlock(&lock);
	return e ? 0 : -ENOMEM;
}

/* Passes the life and key of an entry that is about to be freed to its first twin, which holds them
 * for the other twins from now on. */
static void hand_over(struct entry *gone)
{
	struct entry *heir = NULL, *e;

	LIST_FOREACH(e, &entries, link)
	{
		if (e->twin != gone)
			continue;
		e->twin = heir;
		if (heir)
			continue;
		heir = e;
		heir->life = gone->life;
		memcpy(heir->key, gone->key, sizeof(heir->key));
	}
}

void cn_life_leave(const char *home)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find_entry(home);
	if (e && !--e->users) {
		LIST_REMOVE(e, link);
		hand_over(e);
		explicit_bzero(e->key, sizeof(e->key));
		free(e);
	}
	pthread_mutex_unlock(&lock);
}

void cn_life_name(const char *worker, const char *node)
{
	struct entry *w, *n;

	pthread_mutex_lock(&lock);
	w = find_entry(worker);
	n = find_entry(node);
	if (w && n && !w->dialled)
		strcpy(w->name, n->name);
	pthread_mutex_unlock(&lock);
}

int cn_life_connect(struct lend_ep *ep, const char *home, lend_session *session, uint32_t *number)
{
	char name[CN_HOME_MAX], address[CN_ADDRESS_MAX];
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find_entry(home);
	strcpy(name, e ? e->name : home);
	*number = e ? e->names : 0;
	if (e)
		e->dialled = true;
	pthread_mutex_unlock(&lock);
	(void)snprintf(address, sizeof(address), "%.*s", (int)strcspn(home, "\n"), home);
	return lend_connect_as(ep, address, name, session);
}

bool cn_life_renamed(const char *home, uint32_t name)
{
	struct entry *e;
	bool yes;

	pthread_mutex_lock(&lock);
	e = find_entry(home);
	yes = e && e->names != name;
	pthread_mutex_unlock(&lock);
	return yes;
}

static uint64_t copy_life(const char *home, uint8_t key[LEND_MEMOP_KEY])
{
	uint64_t life = 0;
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find_entry(home);
	if (e) {
		life = root_of(e)->life;
		memcpy(key, root_of(e)->key, LEND_MEMOP_KEY);
	}
	pthread_mutex_unlock(&lock);
	return life;
}

bool cn_life_encode(struct lend_ep *ep, lend_session session, const char *home, uint32_t client,
		    struct lend_memop *say)
{
	uint8_t key[LEND_MEMOP_KEY], context[LEND_MEMOP_CONTEXT];

	memset(say, 0, sizeof(*say));
	say->kind = LEND_MEMOP_HELLO;
	say->client = client;
	say->life = copy_life(home, key);
	if (!say->life)
		return client != 0;
	if (lend_session_context(ep, session, context) < 0) {
		say->kind = LEND_MEMOP_RENEW;
		say->life = 0;
	} else {
		lend_memop_proof(key, context, say, say->proof);
	}
	explicit_bzero(key, sizeof(key));
	return true;
}

uint64_t cn_life_opened(const char *home, const struct lend_memhello *hello)
{
	uint64_t life = hello->life;
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find_entry(home);
	if (e && root_of(e)->life) {
		life = root_of(e)->life;
	} else if (e) {
		root_of(e)->life = life;
		memcpy(root_of(e)->key, hello->key, sizeof(e->key));
	}
	pthread_mutex_unlock(&lock);
	return life;
}

void cn_life_ended(const char *home, uint64_t life)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find_entry(home);
	if (e && root_of(e)->life == life)
		root_of(e)->life = 0;
	pthread_mutex_unlock(&lock);
}

static bool is_listed(const char *text, const char *home)
{
	size_t len = strcspn(home, "\n");

	while (*text) {
		size_t n = strcspn(text, ",");

		if (n == len && !memcmp(text, home, len))
			return true;
		text += n + (text[n] == ',');
	}
	return false;
}

static bool is_same_key(const struct entry *a, const struct entry *b)
{
	return !strcmp(a->home + strcspn(a->home, "\n"), b->home + strcspn(b->home, "\n"));
}

/* Finds another address of the same worker: same node, epoch and worker, and each address is in the
 * list that the other one's HELLO returned. */
static struct entry *find_twin(const struct entry *e)
{
	struct entry *o;

	LIST_FOREACH(o, &entries, link)
	if (o != e && !o->twin && o->life && o->id == e->id && o->epoch == e->epoch &&
	    o->worker == e->worker && is_same_key(o, e) && is_listed(o->text, e->home) &&
	    is_listed(e->text, o->home))
		return o;
	return NULL;
}

static void note_hello(struct entry *e, const struct lend_memhello *hello)
{
	e->id = hello->node;
	e->epoch = hello->epoch;
	e->worker = hello->worker;
	memcpy(e->text, hello->text, hello->text_len);
	e->text[hello->text_len] = 0;
}

static bool has_twins(const struct entry *e)
{
	const struct entry *o;

	LIST_FOREACH(o, &entries, link)
	if (o->twin == e)
		return true;
	return false;
}

void cn_life_learn(const char *home, const struct lend_memhello *hello)
{
	struct entry *e, *twin = NULL;

	pthread_mutex_lock(&lock);
	e = find_entry(home);
	if (e)
		note_hello(e, hello);
	if (e && e->twin && (e->twin->id != e->id || e->twin->worker != e->worker))
		e->twin = NULL; /* another node is at that address now */
	else if (e && !e->twin && !has_twins(e))
		twin = find_twin(e);
	if (twin) {
		e->twin = twin;
		strcpy(e->name, twin->name);
		e->names++;
	}
	pthread_mutex_unlock(&lock);
}
