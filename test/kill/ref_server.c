/* ref_server - takes references out of requests: adopts, reads, compares, maps, releases. Part of
 * victim.h. Its handler keeps the request; the work is done between turns. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kill/kill_client.h"
#include "kill/victim.h"

enum { WAITING = 64 };
static struct {
	struct client c;
	struct waiting {
		lend_request request;
		struct take take;
	} wait[WAITING];
	uint32_t first, end;
} self;
static volatile sig_atomic_t leaving;

static void leave(int signal_number)
{
	(void)signal_number;
	leaving = 1;
	lend_stop(self.c.ep);
}

static void handle(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)arg;
	if (bytes->len != sizeof(struct take) || self.end - self.first == WAITING) {
		(void)lend_reply(self.c.ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
		return;
	}
	self.wait[self.end % WAITING].request = request;
	memcpy(&self.wait[self.end++ % WAITING].take, bytes->data, sizeof(struct take));
}

/* Answers bytes that came by value, because no memory node took them. */
static void answer_value(lend_request request, const struct take *take, const struct lend_arg *data)
{
	uint8_t *want = malloc(take->len);

	kill_fill(want, take->len, take->seed);
	if (data->len != take->len || memcmp(data->bytes, want, take->len))
		kill_bad(self.c.page, "%u bytes by value: wrong bytes", take->len);
	free(want);
	(void)lend_reply(self.c.ep, request, LEND_OK, NULL);
}

/* Handles arguments: a take without a reference, and the bytes. */
static void handle_args(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct lend_arg take, data;
	struct waiting *w = &self.wait[self.end % WAITING];
	uint32_t cursor = 0;

	(void)arg;
	if (self.end - self.first == WAITING) {
		(void)lend_reply(self.c.ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
		return;
	}
	if (lend_arg_next(bytes, &cursor, &take) != 1 ||
	    lend_arg_next(bytes, &cursor, &data) != 1 ||
	    lend_arg_next(bytes, &cursor, &(struct lend_arg){0}) != 0 || !take.bytes ||
	    take.len != sizeof(w->take)) {
		kill_bad(self.c.page, "no arguments arrived");
		return;
	}
	w->request = request;
	memcpy(&w->take, take.bytes, sizeof(w->take));
	if (data.bytes) {
		answer_value(request, &w->take, &data);
		return;
	}
	w->take.ref = data.ref;
	if (data.len != w->take.len)
		kill_bad(self.c.page, "a reference to bytes of another length");
	self.end++;
}

static enum lend_status look(const struct take *take)
{
	uint8_t *bytes = malloc(2 * (size_t)take->len), *want = bytes + take->len;
	struct iovec iov = {bytes, take->len};
	struct lend_op op = {.timeout = SECOND}, map = op, write = op, seal = op, out = op,
		       gone = op;
	lend_space space;
	bool got = client_end(&self.c, "server's get", &op,
			      lend_get(self.c.mem, &take->ref, 0, &iov, 1, &op));

	kill_fill(want, take->len, take->seed);
	if (got && memcmp(bytes, want, take->len))
		kill_bad(self.c.page, "the server's get of %u bytes: wrong bytes", take->len);
	iov.iov_len = take->len < 5 ? take->len : 5;
	if (got && take->len <= 5000 &&
	    client_end(&self.c, "map", &map,
		       lend_space_map(self.c.mem, &take->ref, &space, &map))) {
		client_end(&self.c, "write", &write,
			   lend_space_write(self.c.mem, space, 0, &iov, 1, &write));
		if (client_end(&self.c, "seal", &seal,
			       lend_space_seal(self.c.mem, space, 0, take->len, NULL, &seal)))
			client_end(&self.c, "release", &gone,
				   lend_release(self.c.mem, &seal.ref, 1, &gone));
		client_end(&self.c, "free", &out, lend_space_free(self.c.mem, space, &out));
	}
	free(bytes);
	return op.status;
}

static enum lend_status take_it(const struct take *take)
{
	struct lend_op op = {.timeout = SECOND}, out = op;
	enum lend_status status;

	if (take->terms == LEND_OWNED)
		return look(take);
	if (!client_end(&self.c, "adopt", &op, lend_adopt(self.c.mem, &take->ref, &op)))
		return op.status;
	status = look(take);
	client_end(&self.c, "release", &out, lend_release(self.c.mem, &take->ref, 1, &out));
	return status;
}

static void live(const char *listen)
{
	struct lend_config config = LEND_CONFIG_INIT;
	int rc;

	config.listen = listen;
	config.sessions = 32;
	config.probe = 20 * MS;
	config.dead = 100 * MS;
	rc = lend_open(&config, &self.c.ep);
	if (rc == 0)
		rc = lend_serve(self.c.ep, TAKE_METHOD, handle, NULL, 0);
	if (rc == 0)
		rc = lend_serve(self.c.ep, LEND_METHOD, handle_args, NULL, 0);
	if (rc == 0)
		rc = lend_mem_open(self.c.ep, self.c.page->node, &self.c.mem);
	if (rc == 0)
		rc = lend_address(self.c.ep, self.c.page->server, sizeof(self.c.page->server));
	client_check(self.c.page, "server's start", rc, LEND_OK);
	signal(SIGTERM, leave);
	atomic_store(&self.c.page->serving, true);
	while (!leaving) {
		if (self.first == self.end)
			(void)lend_wait(self.c.ep, LEND_NEVER);
		while (self.first != self.end) {
			struct waiting w = self.wait[self.first++ % WAITING];

			(void)lend_reply(self.c.ep, w.request, take_it(&w.take), NULL);
		}
	}
	lend_mem_close(self.c.mem);
	lend_close(self.c.ep);
}

pid_t victim_server(struct kill_page *page, const char *listen)
{
	pid_t pid;

	atomic_store(&page->serving, false);
	pid = client_fork(page, ROLE_SERVER);
	if (pid)
		return pid;
	self.c.page = page;
	live(listen);
	_exit(0);
}
