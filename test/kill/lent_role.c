#include "kill/lent_role.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cn/client.h"
#include "kill/watch.h"
#include "lend/alloc.h"
#include "lend/stats.h"
#include "wire/lent_table.h"

enum { METHOD = 0x6c656e74, SLOTS = 4, VIEWS = 3, LENT_MAX = 100000 };
enum {
	EARLY_MIN = 256 << 10,
	LEN_MAX = 384 << 10
}; /* the call overtakes the put, see cn/README.md */
#define TIMEOUT (SECOND / 2)
#define PATIENT (5 * SECOND) /* by which a call ends after its timeout */

/* The first argument: the bytes of the second one. */
struct head {
	uint64_t seed, len;
};

struct slot {
	struct lend_call call; /* first */
	struct head head;
	uint8_t *memory;
	lend_ns until;
	bool busy;
};

/* A request. The middle reads its argument and passes it on, the end maps it. */
struct job {
	struct lend_call call; /* first */
	struct lend_op op;
	struct lend_arg_view view;
	struct lend_arg arg;
	struct head head;
	lend_request request;
	uint8_t *into;
	uint32_t due;
	struct job *older; /* the next view that is held */
};

static struct {
	struct lent_chain *chain;
	enum lent_role role;
	struct lend_ep *ep;
	struct lend_mem *mem;
	struct lend_rng rng;
	lend_session next;
	uint32_t jobs, loans;
	struct job *views; /* held after their request, the newest first */
	struct slot slot[SLOTS];
} self;

/* Counts the loans of this process: the linker's --wrap puts these before the table's functions. */
bool __real_lend_lent_add(struct lend_lent_table *t, uint64_t at, uint64_t len,
			  const uint8_t key[16], struct lend_memref *ref);
bool __wrap_lend_lent_add(struct lend_lent_table *t, uint64_t at, uint64_t len,
			  const uint8_t key[16], struct lend_memref *ref);
bool __real_lend_lent_end(struct lend_lent_table *t, uint32_t slot, uint64_t serial);
bool __wrap_lend_lent_end(struct lend_lent_table *t, uint32_t slot, uint64_t serial);

bool __wrap_lend_lent_add(struct lend_lent_table *t, uint64_t at, uint64_t len,
			  const uint8_t key[16], struct lend_memref *ref)
{
	bool added = __real_lend_lent_add(t, at, len, key, ref);

	self.loans += added;
	return added;
}

bool __wrap_lend_lent_end(struct lend_lent_table *t, uint32_t slot, uint64_t serial)
{
	bool ended = __real_lend_lent_end(t, slot, serial);

	self.loans -= ended;
	return ended;
}

static void fail_role(const char *what, int status)
{
	kill_bad(self.chain->page, "role %d: %s: %d, %s", self.role, what, status, lend_why());
}

static void check_status(const char *what, enum lend_status status)
{
	static const unsigned fair = 1u << LEND_OK | 1u << LEND_CANCELLED | 1u << LEND_NOT_FOUND |
				     1u << LEND_DEADLINE_EXCEEDED | 1u << LEND_UNAVAILABLE |
				     1u << LEND_RESOURCE_EXHAUSTED;

	/* Over udp, a lease ends after 100 ms without CPU time. */
	bool fenced = status == LEND_ABORTED && self.chain->by_node && self.chain->page->udp;

	atomic_fetch_add_explicit(&self.chain->page->victim_ops, 1, memory_order_relaxed);
	if (!(fair >> status & 1) && !fenced)
		fail_role(what, (int)status);
}

static void check_bytes(const struct head *head, const void *bytes)
{
	uint8_t *want = malloc(head->len);

	kill_fill(want, head->len, head->seed);
	if (memcmp(bytes, want, head->len))
		fail_role("wrong bytes", (int)head->len);
	free(want);
}

/* Connects to the next process of the chain; false: later. */
static bool has_next(void)
{
	enum lent_role to = self.role + 1;

	if (self.next.id && lend_session_message_max(self.ep, self.next))
		return true;
	return atomic_load(&self.chain->up[to]) &&
	       lend_connect(self.ep, self.chain->address[to], &self.next) == 0;
}

static void call_done(struct lend_call *call)
{
	struct slot *s = (struct slot *)call;

	check_status("a call", call->status);
	lend_buf_give(self.ep, call->reply);
	atomic_fetch_add(call->status == LEND_OK ? &self.chain->fine : &self.chain->failed, 1);
	s->busy = false;
	memset(s->memory, 0xee, s->head.len); /* its next use */
}

static void start_call(struct slot *s)
{
	struct iovec iov[2] = {{&s->head, sizeof(s->head)}, {s->memory, 0}};
	struct lend_argument arg[2] = {{.data = &iov[0], .n = 1, .way = LEND_ARG_VALUE},
				       {.data = &iov[1], .n = 1, .way = LEND_ARG_CALLER}};
	int rc;

	s->head = (struct head){lend_rng_next(&self.rng), 1 + kill_below(&self.rng, LENT_MAX)};
	if (self.chain->by_node) {
		arg[1].way = LEND_ARG_NODE;
		if (s->head.len % 2)
			s->head.len = EARLY_MIN + s->head.len;
	}
	iov[1].iov_len = s->head.len;
	kill_fill(s->memory, s->head.len, s->head.seed);
	s->call = (struct lend_call){.method = METHOD, .timeout = TIMEOUT, .done = call_done};
	s->until = lend_now(self.ep) + TIMEOUT + PATIENT;
	s->busy = true;
	rc = lend_call_start_argv(self.mem, self.next, &s->call, arg, 2);
	if (rc == 0)
		return;
	s->busy = false;
	if (rc != -ESTALE)
		fail_role("a call does not start", rc);
}

/* Starts calls, unless a count is due, and cancels some. Returns whether none is in flight. */
static bool run_calls(bool start)
{
	bool idle = true;

	for (struct slot *s = self.slot; s < self.slot + SLOTS; s++) {
		if (!s->busy && start && has_next())
			start_call(s);
		idle &= !s->busy;
		if (s->busy && kill_below(&self.rng, 64) == 0)
			lend_call_cancel_args(self.mem, &s->call);
		if (s->busy && lend_now(self.ep) > s->until)
			fail_role("a call does not end", 0);
	}
	return idle;
}

static void free_job(struct job *j)
{
	if (j->view.bytes)
		lend_arg_unmap(self.mem, &j->view);
	free(j->into);
	free(j);
}

/* Frees all views but the newest ones. */
static void drop_views(uint32_t keep)
{
	struct job **at = &self.views;

	for (; *at && keep; keep--)
		at = &(*at)->older;
	while (*at) {
		struct job *j = *at;

		*at = j->older;
		free_job(j);
	}
}

static void check_view(struct job *j)
{
	uint8_t *seen = malloc(j->head.len);

	memcpy(seen, j->view.bytes, j->head.len);
	if (lend_arg_intact(&j->view) == 0)
		check_bytes(&j->head, seen);
	else
		atomic_fetch_add(&self.chain->late, 1);
	free(seen);
}

/* Replies once the argument was read, and passed on. */
static void drop_due(struct job *j)
{
	enum lend_status status = j->op.status == LEND_OK ? j->call.status : j->op.status;

	if (--j->due)
		return;
	(void)lend_reply(self.ep, j->request, status, NULL);
	self.jobs--;
	j->older = self.views;
	self.views = j;
	drop_views(VIEWS);
}

static void read_done(struct lend_op *op)
{
	struct job *j = (struct job *)((char *)op - offsetof(struct job, op));

	check_status("a read", op->status);
	atomic_fetch_add(op->status == LEND_OK ? &self.chain->read : &self.chain->late, 1);
	if (op->status == LEND_OK && j->into)
		check_bytes(&j->head, j->into);
	else if (op->status == LEND_OK)
		check_view(j);
	drop_due(j);
}

static void passed_done(struct lend_call *call)
{
	check_status("a call that passes on", call->status);
	lend_buf_give(self.ep, call->reply);
	drop_due((struct job *)call);
}

static void start_read(struct job *j)
{
	struct iovec iov = {NULL, j->head.len};
	int rc;

	j->op = (struct lend_op){.parent = j->request, .done = read_done};
	j->due++;
	if (kill_below(&self.rng, 2))
		iov.iov_base = j->into = malloc(j->head.len);
	rc = j->into ? lend_arg_get(self.mem, &j->arg, 0, &iov, 1, &j->op)
		     : lend_arg_map(self.mem, &j->arg, &j->view, &j->op);
	if (rc == 0)
		return;
	j->due--;
	j->op.status = LEND_UNAVAILABLE;
}

static void pass_on(struct job *j)
{
	struct iovec iov = {&j->head, sizeof(j->head)};
	struct lend_argument arg[2] = {{.data = &iov, .n = 1, .way = LEND_ARG_VALUE},
				       {.ref = &j->arg.ref, .home = j->arg.home}};

	j->call = (struct lend_call){.method = METHOD, .parent = j->request, .done = passed_done};
	j->due++;
	if (has_next() && lend_call_start_argv(self.mem, self.next, &j->call, arg, 2) == 0)
		return;
	j->due--;
	j->call.status = LEND_UNAVAILABLE;
}

/* No node took the argument. */
static void serve_by_value(lend_request request, const struct lend_arg *arg)
{
	struct head head;

	memcpy(&head, arg[0].bytes, sizeof(head));
	check_bytes(&head, arg[1].bytes);
	(void)lend_reply(self.ep, request, LEND_OK, NULL);
}

static void serve_args(lend_request request, const struct lend_arg *arg, int n, void *unused)
{
	struct job *j;

	(void)unused;
	if (n != 2 || arg[0].len != sizeof(j->head) || (arg[1].bytes && !self.chain->by_node))
		fail_role("not an argument by reference", n);
	if (arg[1].bytes) {
		serve_by_value(request, arg);
		return;
	}
	j = calloc(1, sizeof(*j));
	memcpy(&j->head, arg[0].bytes, sizeof(j->head));
	j->arg = arg[1];
	j->request = request;
	j->due = 1;
	self.jobs++;
	if (self.role == LENT_MIDDLE)
		pass_on(j);
	start_read(j);
	drop_due(j);
}

/* Returns the number of requests that this client still has to send to nodes. */
static uint32_t count_unsaid(void)
{
	uint32_t n = self.mem->orphans;

	for (uint32_t i = 0; i < self.mem->nodes; i++)
		n += self.mem->node[i]->cleans +
		     (uint32_t)(self.mem->node[i]->next - self.mem->node[i]->low);
	return n;
}

static void count_all(void)
{
	struct lent_count *c = &self.chain->count[self.role];
	struct lend_session_stats stats;
	unsigned i = 0;

	drop_views(0);
	*c = (struct lent_count){.fds = kill_open_fds(), .maps = kill_ring_maps()};
	c->live = self.mem->live + self.jobs + self.loans + !TAILQ_EMPTY(&self.mem->args) +
		  count_unsaid();
	while ((i = lend_stats_session(self.ep, i, &stats)))
		c->sessions++;
}

static void open_role(void)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char *address = self.chain->address[self.role], listen[104];
	int rc;

	memcpy(listen, address, sizeof(listen)); /* of the process that died */
	config.listen = listen;
	config.sessions = 16;
	config.probe = 20 * MS;
	config.dead = 100 * MS;
	rc = lend_open(&config, &self.ep);
	if (rc == 0)
		rc = lend_mem_open(self.ep, self.chain->by_node ? self.chain->page->node : "",
				   &self.mem);
	if (rc == 0)
		rc = lend_address(self.ep, address, sizeof(listen));
	if (rc == 0 && self.role != LENT_CALLER)
		rc = lend_serve_args(self.mem, METHOD, serve_args, NULL, LEND_ARGS_PART);
	for (uint32_t i = 0; i < SLOTS; i++)
		self.slot[i].memory = i % 2 ? lend_malloc_shared(LEN_MAX) : lend_malloc(LEN_MAX);
	if (rc < 0)
		fail_role("it does not open", rc);
	atomic_store(&self.chain->up[self.role], true);
}

static void run_role(void)
{
	while (!atomic_load(&self.chain->leave)) {
		uint32_t question = atomic_load(&self.chain->question);
		bool idle = true;

		(void)lend_wait(self.ep, lend_now(self.ep) + MS);
		if (self.role == LENT_CALLER)
			idle = run_calls(question % 2 == 0);
		if (!idle || question % 2 == 0 || self.jobs)
			continue;
		count_all();
		atomic_store(&self.chain->answer[self.role], question);
	}
	drop_views(0);
	lend_mem_close(self.mem);
	lend_close(self.ep);
}

pid_t lent_start(struct lent_chain *chain, enum lent_role role)
{
	pid_t pid;

	atomic_store(&chain->up[role], false);
	(void)fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	kill_be_alone();
	fuse_light(&chain->fuse[role]);
	self.chain = chain;
	self.role = role;
	lend_rng_seed(&self.rng, kill_now());
	open_role();
	run_role();
	_exit(0);
}
