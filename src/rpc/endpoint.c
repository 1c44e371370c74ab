/* endpoint - opening and closing an endpoint.
 * Layer: rpc. Threads: the endpoint's. Ownership: the endpoint owns core, carriers, pools and
 * workers. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/cc.h"
#include "rpc/heads.h"
#include "rpc/keys.h"
#include "rpc/call_spans.h"
#include "rpc/sealed_sessions.h"
#include "stream/duplex.h"
#include "sys/clock.h"
#include "sys/asan.h"
#include "sys/rand.h"
#include "sys/last_error.h"
#include "util/bits.h"
#include "util/check.h"
#include "wire/head.h"

_Static_assert((int)LEND_SHORTEST_FIRST == LEND_ORDER_SHORTEST &&
		   (int)LEND_EARLIEST_FIRST == LEND_ORDER_DEADLINE &&
		   (int)LEND_AS_THEY_COME == LEND_ORDER_FIFO &&
		   (int)LEND_FAIR_SHARES == LEND_ORDER_FAIR,
	       "the core's values equal the public ones");
enum {
	SESSIONS = 512,
	CALLS = 128,
	INFLIGHT = 2048, /* or two per session, so that each session can have its last reply
			    unacknowledged */
	REASSEMBLIES = 512,
	WIDE_RINGS = 32,
	UNSCHEDULED = 65536,
	ALIVE_LEN = 4096,
	GOODBYES = 4,       /* turns of output that a close does */
	ATTEMPTS = 1 << 16, /* connects with a 0-RTT ticket that are remembered */
};
/* How long a ticket of core/zero_rtt.h lives; include/lend/rpc.h promises half of it. */
#define TICKET_NS UINT64_C(30000000000)
#define MIB       UINT64_C(1048576)

const char *lend_why(void)
{
	return lend_why_text();
}

int lend_ep_check_slow(struct lend_ep *ep)
{
	const void *mark = lend_thread_mark();

	if (ep->turning)
		return lend_fail(
		    EDEADLK,
		    "inside a turn of this endpoint: handlers and done functions must not wait; "
		    "use LEND_SLOW, or start calls and return");
	if (!*ep->alive)
		return lend_fail(
		    EPERM,
		    "this endpoint belongs to the process that opened it: open one after fork()");
	atomic_store_explicit(&ep->thread, mark, memory_order_relaxed);
	return 0;
}

/* Copies a text of the caller for carriers that open later. */
static int keep_text(const char **text, const char *field)
{
	const char *theirs = *text;

	*text = theirs ? strdup(theirs) : NULL;
	return theirs && !*text ? lend_fail(ENOMEM, "no memory for config.%s", field) : 0;
}

static int fill_config(struct lend_ep *ep, const struct lend_config *config)
{
	struct lend_config *c = &ep->config;
	int rc;

	if (config && (config->size < offsetof(struct lend_config, listen) || config->size > 4096))
		return lend_fail(EINVAL, "config.size is %u: begin with LEND_CONFIG_INIT",
				 config->size);
	if (config)
		memcpy(c, config, config->size < sizeof(*c) ? config->size : sizeof(*c));
	ep->no_key = c->secret && !*c->secret;
	rc = lend_level_rules_read(&ep->sealing.rules, c->level ? c->level : getenv("LEND_LEVEL"));
	if (rc == 0)
		rc = lend_keys_first(c->secret, !lend_level_rules_of(&ep->sealing.rules, NULL),
				     &ep->key_id);
	ep->key_of_file = !c->secret && lend_keys_filed(ep->key_id);
	ep->keys_generation = lend_keys_generation();
	c->secret = c->level = NULL;
	if (rc < 0)
		return rc;
	rc = keep_text(&c->eal, "eal");
	rc = keep_text(&c->capture, "capture") < 0 ? -ENOMEM : rc;
	if (rc < 0)
		return rc;
	c->sessions = c->sessions ? c->sessions : SESSIONS;
	c->calls = c->calls ? c->calls : CALLS;
	ep->core_config.sessions = c->sessions;
	ep->core_config.ticket_ns = TICKET_NS;
	c->message_max = c->message_max ? c->message_max : 16 * MIB;
	c->receive_budget = c->receive_budget ? c->receive_budget : 64 * MIB;
	c->timeout = c->timeout ? c->timeout : UINT64_C(5000000000);
	c->probe = c->probe ? c->probe : UINT64_C(500000000);
	c->dead = c->dead ? c->dead : UINT64_C(5000000000);
	c->memory_max =
	    c->memory_max ? c->memory_max : 512 * MIB + 4 * c->message_max + 2 * c->receive_budget;
	c->head_max = c->head_max ? c->head_max : LEND_HEAD_MAX;
	if (c->head_max > LEND_HEAD_MAX)
		return lend_fail(EINVAL, "config.head_max: %u bytes; at most %d", c->head_max,
				 LEND_HEAD_MAX);
	if (c->schedule > LEND_FAIR_SHARES)
		return lend_fail(EINVAL, "config.schedule: %u is not a value of enum lend_schedule",
				 c->schedule);
	if (c->sessions > 1u << 20 || c->calls > 1024 || c->message_max > 1024 * MIB)
		return lend_fail(EINVAL,
				 "config: sessions at most 1048576, calls 1024, message_max 1 GiB");
	return 0;
}

static int choose_cc(struct lend_ep *ep)
{
	const char *name = ep->config.cc ? ep->config.cc : getenv("LEND_CC");
	enum lend_cc cc = name && *name ? lend_cc_named(name) : LEND_CC_CREDIT;

	if (cc == LEND_CC_KINDS)
		return lend_fail(EINVAL,
				 "congestion control \"%.40s\": write none, timely, swift, dctcp "
				 "or credit",
				 name);
	ep->core_config.congestion = (uint8_t)cc;
	ep->core_config.features = LEND_FEATURE_REPLY_HEADS | LEND_FEATURE_REQUEST_HEADS;
	ep->config.cc = lend_cc_name(cc); /* a worker's endpoint is opened with it, too */
	return 0;
}

/* Maps the tables indexed by the core's records and by sessions. They are zeroed and have their
 * full length, but use memory only for entries that were in use. */
static int open_tables(struct lend_ep *ep)
{
	size_t reqs, sessions, n = ep->core_config.sessions;
	char *at;

	ep->n_req = 2 * ep->core_config.inflight;
	ep->n_sessions = (uint32_t)(2 * n);
	reqs = ep->n_req * sizeof(*ep->req);
	sessions = ep->n_sessions * sizeof(*ep->session);
	if (lend_mapping_map_sparse(&ep->tables, reqs + sessions + n * sizeof(*ep->by_core)) < 0)
		return -ENOMEM;
	at = ep->tables.base;
	LEND_ROOT(at, ep->tables.len);
	ep->req = (void *)at;
	ep->session = (void *)(at + reqs);
	ep->by_core = (void *)(at + reqs + sessions);
	return 0;
}

static int open_core(struct lend_ep *ep)
{
	struct lend_core_config *c = &ep->core_config;
	uint64_t all = (uint64_t)ep->config.sessions * ep->config.calls;
	uint64_t some = lend_max_u64(INFLIGHT, UINT64_C(2) * ep->config.sessions);

	if (choose_cc(ep) < 0)
		return -EINVAL;
	c->calls = ep->config.calls;
	c->inflight = (uint32_t)lend_min_u64(lend_min_u64(all, some), 1u << 20);
	c->reassemblies = c->inflight < REASSEMBLIES ? c->inflight : REASSEMBLIES;
	c->wide_rings = c->sessions < WIDE_RINGS ? c->sessions : WIDE_RINGS;
	c->message_max = ep->config.message_max;
	c->note_method = LEND_METHOD_STREAM;
	c->note_len = sizeof(struct lend_note);
	c->receive_budget = ep->config.receive_budget;
	c->unscheduled = UNSCHEDULED;
	c->order = (uint8_t)ep->config.schedule;
	c->attempts = ATTEMPTS;
	c->probe = ep->config.probe;
	c->dead = ep->config.dead;
	lend_handshake_process_key(ep->process_key);
	lend_handshake_name(ep->process_key, NULL, c->incarnation);
	lend_random(c->seed, sizeof(c->seed));
	ep->supply_len = c->unscheduled;
	ep->core_len = lend_core_size(c);
	if (!ep->core_len)
		return lend_fail(EINVAL, "config: sessions, calls or sizes are out of range");
	if (lend_mapping_map_sparse(&ep->core_memory, ep->core_len) < 0)
		return -ENOMEM;
	ep->core = lend_core_init(ep->core_memory.base, c, lend_clock_now());
	ep->events = lend_core_waiting(ep->core);
	if (lend_sealing_open(ep) < 0)
		return -ENOMEM;
	lend_sealed_attach(ep);
	return open_tables(ep);
}

static int open_fds(struct lend_ep *ep)
{
	ep->epoll = epoll_create1(EPOLL_CLOEXEC);
	ep->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	ep->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (ep->epoll < 0 || ep->timer < 0 || ep->wake < 0)
		return lend_fail(errno, "no file descriptor left to sleep on: raise ulimit -n");
	if (lend_ep_watch_fd(ep, ep->timer) < 0 || lend_ep_watch_fd(ep, ep->wake) < 0)
		return -errno;
	return 0;
}

static int open_alive(struct lend_ep *ep)
{
	uint8_t *page =
	    mmap(NULL, ALIVE_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return lend_fail(ENOMEM, "no memory for an endpoint");
	(void)madvise(page, ALIVE_LEN, MADV_WIPEONFORK);
	*page = 1;
	ep->alive = page;
	return 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Marks lent buffers as lost: a stopped peer may read them when it continues, so they must not
 * change. */
static void abandon_lent(struct lend_ep *ep)
{
	lend_ep_free_deferred(ep);
	while (ep->lent) {
		uint32_t handle = ep->lent;

		ep->lent = ep->bufs->table.seg[handle].next;
		lend_bufs_lose(ep->bufs, handle);
	}
}

/* Releases everything of an endpoint, also of one that was opened in part. */
static void release_endpoint(struct lend_ep *ep)
{
	if (ep->shown_ops)
		ep->shown_ops->close(ep);
	abandon_lent(ep);
	lend_ep_close_carriers(ep);
	lend_sealed_close(ep);
	lend_sealing_close(ep);
	if (ep->bufs)
		lend_bufs_reclaim(ep->bufs);
	lend_workers_free(ep);
	if (ep->bufs)
		lend_bufs_close(ep->bufs);
	lend_sessions_close(ep);
	free((void *)(uintptr_t)ep->config.eal);
	free((void *)(uintptr_t)ep->config.capture);
	lend_methods_free(&ep->methods);
	lend_methods_free(&ep->called);
	lend_req_heads_close(ep);
	lend_trace_close(ep);
	if (ep->tables.base)
		LEND_UNROOT(ep->tables.base, ep->tables.len);
	lend_mapping_unmap(&ep->tables);
	lend_mapping_unmap(&ep->core_memory);
	lend_descriptors_close(ep);
	close_fd(ep->epoll);
	close_fd(ep->timer);
	close_fd(ep->wake);
	if (ep->alive)
		munmap((void *)(uintptr_t)ep->alive, ALIVE_LEN);
	free(ep);
}

int lend_ep_open(const struct lend_config *config, struct lend_ep **out)
{
	struct lend_ep *ep = aligned_alloc(64, (sizeof(*ep) + 63) & ~(size_t)63);
	int rc;

	if (!ep)
		return lend_fail(ENOMEM, "no memory for an endpoint");
	memset(ep, 0, offsetof(struct lend_ep, head));
	ep->epoll = ep->timer = ep->wake = ep->descriptors.epoll = -1;
	ep->descriptors.look_at = LEND_NEVER;
	ep->timer_at = LEND_NEVER;
	ep->spin = LEND_SPIN_NS;
	ep->view.state = LEND_MBUF_CORE;
	lend_contention_init(&ep->contention);
	lend_spin_credit_init(&ep->spin_credit);
	ep->pending = ep->queued = ep->session_free = LEND_NONE32;
	ep->queue_at = LEND_NEVER;
	atomic_store(&ep->thread, lend_thread_mark());
	rc = fill_config(ep, config);
	if (rc == 0)
		rc = open_alive(ep);
	if (rc == 0)
		rc = lend_bufs_open(ep->config.memory_max, &ep->bufs);
	if (rc == 0)
		rc = open_fds(ep);
	if (rc == 0)
		rc = lend_ep_listen(ep);
	if (rc == 0)
		rc = open_core(ep);
	if (rc < 0) {
		release_endpoint(ep);
		return rc;
	}
	ep->config.listen = NULL; /* the caller's string */
	ep->now = ep->active = lend_clock_now();
	*out = ep;
	return 0;
}

/* Ends running handlers, calls and sessions, and runs turns that send the BYEs. */
static void send_goodbyes(struct lend_ep *ep)
{
	for (uint32_t i = 0; i < lend_core_calls_top(ep->core); i++) {
		ep->req[i].rare = true;
		atomic_store_explicit(&ep->req[i].cancelled, true, memory_order_relaxed);
	}
	lend_workers_wake(ep);
	lend_workers_close(ep);
	for (uint32_t i = 0; i < ep->session_top; i++)
		if (ep->session[i].state == LEND_SESSION_OPEN ||
		    ep->session[i].state == LEND_SESSION_PENDING)
			lend_disconnect(
			    ep, (lend_session){(uint64_t)ep->session[i].gen << 32 | (i + 1)});
	for (int i = 0; i < GOODBYES; i++)
		(void)lend_ep_turn(ep);
}

void lend_close(struct lend_ep *ep)
{
	if (!ep)
		return;
	LEND_CHECK(!ep->turning);
	if (!*ep->alive) /* in a fork's child the parent's endpoint is left alone */
		return;
	ep->closing = ep->draining = true;
	atomic_store_explicit(&ep->thread, lend_thread_mark(), memory_order_relaxed);
	if (ep->gateways.n)
		ep->gateways.close(ep);
	while (ep->routes)
		ep->gateways.end(ep, ep->routes);
	send_goodbyes(ep);
	if (ep->streams)
		ep->streams_close(ep);
	/* the thread that called lend_stop() may still be in it */
	while (atomic_load_explicit(&ep->touching, memory_order_acquire))
		sched_yield();
	release_endpoint(ep);
}
