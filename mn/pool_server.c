#include "mn/pool_server.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "sys/fd_passing.h"
#include "sys/rand.h"
#include "sys/last_error.h"

/* A process connected to the socket: CAME (accepted by the thread) -> IN (the store knows its key)
 * -> LEFT -> freed. A process that is refused goes from CAME to LEFT. */
struct mapper {
	TAILQ_ENTRY(mapper) news; /* link in the event list: CAME and LEFT */
	TAILQ_ENTRY(mapper) in;   /* link among those with a key: IN and LEFT */
	int sock;
	uint64_t key; /* 0: not in the store */
	bool left;
};
TAILQ_HEAD(mappers, mapper);

struct mn_pool {
	struct lend_ep *ep;
	struct lend_store *store;
	const struct mn_memory *memory;
	struct lend_unix_listener listener;
	int epoll, end; /* end: an eventfd that stops the thread */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock; /* protects the event list */
	struct mappers news, in;
	atomic_bool is_news;
};

int mn_pool_plan(struct mn_config *config)
{
	static char listen[LEND_MEMOP_TEXT_MAX + 1],
	    name[sizeof(((struct sockaddr_un *)0)->sun_path)];
	size_t len = strlen(config->listen), at = 0, n;

	if (len > LEND_MEMOP_TEXT_MAX)
		return lend_fail(EINVAL, "--listen: at most %d characters", LEND_MEMOP_TEXT_MAX);
	memcpy(listen, config->listen, len + 1);
	for (; at < len; at += n + (at + n < len)) {
		n = strcspn(listen + at, ", ");
		if (n < 6 || strncmp(listen + at, "pool:", 5) != 0 || n - 5 >= sizeof(name))
			continue;
		if (config->pool)
			return lend_fail(EINVAL, "--listen: one pool at most; pool:%s is one",
					 config->pool);
		memcpy(name, listen + at + 5, n - 5);
		config->pool = name;
		memmove(listen + at, listen + at + 1, len-- - at);
		memcpy(listen + at, "shm:", 4);
		n--;
	}
	if (!config->pool)
		return 0;
	config->listen = listen;
	if (!strcmp(config->memory, "private") || !strcmp(config->memory, "shared"))
		config->memory = "memfd";
	return 0;
}

void mn_pool_text(const struct mn_config *config, const char *addresses, char *out, size_t cap)
{
	size_t name = config->pool ? strlen(config->pool) : 0, at = 0;

	out[0] = 0;
	for (const char *a = addresses; *a && at < cap;) {
		size_t n = strcspn(a, ",");
		bool is_pool = name && n == name + 4 && !strncmp(a, "shm:", 4) &&
			       !strncmp(a + 4, config->pool, name);
		int len =
		    snprintf(out + at, cap - at, "%s%s%.*s", at ? "," : "", is_pool ? "pool:" : "",
			     (int)(is_pool ? name : n), is_pool ? a + 4 : a);

		at += len > 0 ? (size_t)len : cap;
		a += n + (a[n] == ',');
	}
}

static void note_news(struct mn_pool *pool, struct mapper *m)
{
	pthread_mutex_lock(&pool->lock);
	TAILQ_INSERT_TAIL(&pool->news, m, news);
	pthread_mutex_unlock(&pool->lock);
	atomic_store_explicit(&pool->is_news, true, memory_order_release);
	lend_stop(pool->ep);
}

static bool watch_fd(struct mn_pool *pool, int fd, void *what)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = what};

	return epoll_ctl(pool->epoll, EPOLL_CTL_ADD, fd, &ev) == 0;
}

/* Accepts connections. The worker's thread adds a socket to the epoll set only after it has passed
 * the file to the process: until then the process cannot map it. */
static void let_in(struct mn_pool *pool)
{
	static const struct timespec delay = {.tv_nsec = 20000000};
	struct mapper *m;
	int fd;

	while ((fd = accept4(pool->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		m = calloc(1, sizeof(*m));
		if (!m) {
			close(fd);
			return;
		}
		m->sock = fd;
		note_news(pool, m);
	}
	if (errno != EAGAIN && errno != ECONNABORTED) /* no descriptors left: do not spin */
		(void)nanosleep(&delay, NULL);
}

/* Returns whether the peer has closed its socket, or sent something: clients never do, and one that
 * keeps sending would keep this thread busy. */
static bool is_gone(int sock)
{
	char byte;

	return recv(sock, &byte, 1, MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR);
}

static void *wait_for_them(void *arg)
{
	struct mn_pool *pool = arg;
	struct epoll_event ev[16];

	for (;;) {
		int n = epoll_wait(pool->epoll, ev, 16, -1);

		for (int i = 0; i < n; i++) {
			struct mapper *m = ev[i].data.ptr;

			if (ev[i].data.ptr == &pool->end)
				return NULL;
			if (ev[i].data.ptr == &pool->listener) {
				let_in(pool);
			} else if (is_gone(m->sock)) {
				(void)epoll_ctl(pool->epoll, EPOLL_CTL_DEL, m->sock, NULL);
				m->left = true;
				note_news(pool, m);
			}
		}
	}
}

static void drop_mapper(struct mn_pool *pool, struct mapper *m)
{
	if (m->key) {
		TAILQ_REMOVE(&pool->in, m, in);
		lend_store_pool_hangup(pool->store, m->key);
	}
	close(m->sock);
	free(m);
}

static void hand_over(struct mn_pool *pool, struct mapper *m)
{
	struct lend_fd_message msg = {
	    .flags = lend_store_checks(pool->store) ? LEND_HANDOVER_CHECKSUM : 0,
	    .page = lend_store_page(pool->store),
	    .size = pool->memory->len};
	uint64_t key;

	do
		lend_random(&key, sizeof(key));
	while (!key);
	if (!lend_store_pool_open(pool->store, key)) {
		msg.status = ENOSPC;
		(void)lend_fd_passing_send(m->sock, &msg, -1);
		drop_mapper(pool, m);
		return;
	}
	m->key = msg.key = key;
	TAILQ_INSERT_TAIL(&pool->in, m, in);
	if (lend_fd_passing_send(m->sock, &msg, pool->memory->fd) < 0 ||
	    !watch_fd(pool, m->sock, m))
		drop_mapper(pool, m);
}

void mn_pool_turn(struct mn_pool *pool)
{
	struct mapper *m;

	if (!pool || !atomic_load_explicit(&pool->is_news, memory_order_acquire))
		return;
	atomic_store(&pool->is_news, false);
	for (;;) {
		pthread_mutex_lock(&pool->lock);
		m = TAILQ_FIRST(&pool->news);
		if (m)
			TAILQ_REMOVE(&pool->news, m, news);
		pthread_mutex_unlock(&pool->lock);
		if (!m)
			return;
		if (m->left)
			drop_mapper(pool, m);
		else
			hand_over(pool, m);
	}
}

static int start_pool(struct mn_pool *pool, const char *name)
{
	int rc = lend_fd_passing_listen(name, &pool->listener);

	if (rc < 0)
		return rc;
	pool->epoll = epoll_create1(EPOLL_CLOEXEC);
	pool->end = eventfd(0, EFD_CLOEXEC);
	if (pool->epoll < 0 || pool->end < 0 ||
	    !watch_fd(pool, pool->listener.fd, &pool->listener) ||
	    !watch_fd(pool, pool->end, &pool->end))
		return lend_fail(errno, "pool:%s: %s; raise ulimit -n", name, strerror(errno));
	rc = pthread_create(&pool->thread, NULL, wait_for_them, pool);
	pool->running = rc == 0;
	return rc ? lend_fail(rc, "pool:%s: no thread: %s", name, strerror(rc)) : 0;
}

int mn_pool_open(struct lend_ep *ep, struct lend_store *store, struct mn_memory *memory,
		 const char *name, struct mn_pool **out)
{
	struct mn_pool *pool;
	int rc = mn_memory_seal(memory);

	if (rc < 0)
		return rc;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return lend_fail(ENOMEM, "no memory for a pool");
	pool->ep = ep;
	pool->store = store;
	pool->memory = memory;
	pool->listener.fd = pool->epoll = pool->end = -1;
	pthread_mutex_init(&pool->lock, NULL);
	TAILQ_INIT(&pool->news);
	TAILQ_INIT(&pool->in);
	rc = start_pool(pool, name);
	if (rc < 0)
		mn_pool_close(pool);
	else
		*out = pool;
	return rc;
}

void mn_pool_close(struct mn_pool *pool)
{
	struct mapper *m;

	if (!pool)
		return;
	if (pool->running) {
		(void)eventfd_write(pool->end, 1);
		(void)pthread_join(pool->thread, NULL);
	}
	while ((m = TAILQ_FIRST(&pool->news))) {
		TAILQ_REMOVE(&pool->news, m, news);
		drop_mapper(pool, m);
	}
	while ((m = TAILQ_FIRST(&pool->in)))
		drop_mapper(pool, m);
	lend_unix_listener_close(&pool->listener);
	close(pool->epoll);
	close(pool->end);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}
