/* server - what takes references out of requests: adopts, reads, compares, maps, releases. Part of
 * victim.h. Its handler keeps the request; the work is done between turns. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kill/victim.h"

enum { WAITING = 64 };
static struct {
	struct kill_page *page;
	struct lend_ep *ep;
	struct lend_mem *mem;
	struct {
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
	lend_stop(self.ep);
}

static void handle(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)arg;
	if (bytes->len != sizeof(struct take) || self.end - self.first == WAITING) {
		(void)lend_reply(self.ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
		return;
	}
	self.wait[self.end % WAITING].request = request;
	memcpy(&self.wait[self.end++ % WAITING].take, bytes->data, sizeof(struct take));
}

static enum lend_status end(const char *what, struct lend_op *op, int rc)
{
	if (rc == 0)
		rc = lend_op_wait(self.mem, op);
	victim_check(self.page, what, rc, op->status);
	return rc < 0 ? LEND_UNAVAILABLE : op->status;
}

static enum lend_status look(const struct take *take)
{
	uint8_t *bytes = malloc(2 * (size_t)take->len), *want = bytes + take->len;
	struct iovec iov = {bytes, take->len};
	struct lend_op op = {.timeout = SECOND}, map = op, write = op, seal = op, out = op,
		       gone = op;
	enum lend_status status;
	lend_space space;

	status = end("server's get", &op, lend_get(self.mem, &take->ref, 0, &iov, 1, &op));
	kill_fill(want, take->len, take->seed);
	if (status == LEND_OK && memcmp(bytes, want, take->len))
		kill_bad(self.page, "the server's get of %u bytes: others came", take->len);
	iov.iov_len = take->len < 5 ? take->len : 5;
	if (status == LEND_OK && take->len <= 5000 &&
	    end("map", &map, lend_space_map(self.mem, &take->ref, &space, &map)) == LEND_OK) {
		(void)end("write", &write, lend_space_write(self.mem, space, 0, &iov, 1, &write));
		if (end("seal", &seal,
			lend_space_seal(self.mem, space, 0, take->len, NULL, &seal)) == LEND_OK)
			(void)end("release", &gone, lend_release(self.mem, &seal.ref, 1, &gone));
		(void)end("free", &out, lend_space_free(self.mem, space, &out));
	}
	free(bytes);
	return status;
}

static void serve(lend_request request, const struct take *take)
{
	struct lend_op op = {.timeout = SECOND}, out = op;
	enum lend_status status = LEND_OK;

	if (take->terms != LEND_OWNED)
		status = end("adopt", &op, lend_adopt(self.mem, &take->ref, &op));
	if (status == LEND_OK) {
		status = look(take);
		if (take->terms != LEND_OWNED)
			(void)end("release", &out, lend_release(self.mem, &take->ref, 1, &out));
	}
	(void)lend_reply(self.ep, request, status, NULL);
}

static void live(const char *listen)
{
	struct lend_config config = LEND_CONFIG_INIT;
	int rc;

	config.listen = listen;
	config.sessions = 32;
	config.probe = 20 * MS;
	config.dead = 100 * MS;
	rc = lend_open(&config, &self.ep);
	if (rc == 0)
		rc = lend_serve(self.ep, TAKE_METHOD, handle, NULL, 0);
	if (rc == 0)
		rc = lend_mem_open(self.ep, self.page->node, &self.mem);
	if (rc == 0)
		rc = lend_address(self.ep, self.page->server, sizeof(self.page->server));
	victim_check(self.page, "server's start", rc, LEND_OK);
	signal(SIGTERM, leave);
	atomic_store(&self.page->serving, true);
	while (!leaving) {
		if (self.first == self.end)
			(void)lend_turn(self.ep, LEND_NEVER);
		while (self.first != self.end) {
			serve(self.wait[self.first % WAITING].request,
			      &self.wait[self.first % WAITING].take);
			self.first++;
		}
	}
	lend_mem_close(self.mem);
	lend_close(self.ep);
}

pid_t victim_server(struct kill_page *page, const char *listen)
{
	pid_t pid;

	atomic_store(&page->serving, false);
	(void)fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	kill_be_alone();
	fuse_light(&page->fuse[ROLE_SERVER]);
	self.page = page;
	live(listen);
	_exit(0);
}
