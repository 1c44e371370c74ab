#include "kill/kill_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

pid_t client_fork(struct kill_page *page, enum kill_role role)
{
	pid_t pid;

	(void)fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	kill_be_alone();
	fuse_light(&page->fuse[role]);
	return 0;
}

void client_check(struct kill_page *page, const char *what, int rc, enum lend_status status)
{
	static const unsigned fair = 1u << LEND_OK | 1u << LEND_CANCELLED |
				     1u << LEND_DEADLINE_EXCEEDED | 1u << LEND_NOT_FOUND |
				     1u << LEND_RESOURCE_EXHAUSTED | 1u << LEND_ABORTED |
				     1u << LEND_FAILED_PRECONDITION | 1u << LEND_UNAVAILABLE;

	atomic_fetch_add_explicit(&page->victim_ops, 1, memory_order_relaxed);
	if (rc == -ESTALE || rc == -EAGAIN || (rc == -EHOSTUNREACH && page->node_dies))
		return;
	if (rc < 0)
		kill_bad(page, "a victim's %s: %d, %s", what, rc, lend_why());
	else if (!(fair >> status & 1))
		kill_bad(page, "a victim's %s ended with status %d", what, status);
	else
		return;
	_exit(1);
}

void client_open(struct client *c)
{
	struct lend_config config = LEND_CONFIG_INIT;
	int rc;

	config.sessions = 16;
	config.probe = 20 * MS;
	config.dead = 100 * MS;
	rc = lend_open(&config, &c->ep);
	if (rc == 0)
		rc = lend_mem_open(c->ep, c->page->node, &c->mem);
	client_check(c->page, "open", rc, LEND_OK);
}

bool client_end(struct client *c, const char *what, struct lend_op *op, int rc)
{
	if (rc == 0)
		rc = lend_op_wait(c->mem, op);
	client_check(c->page, what, rc, op->status);
	if (rc < 0)
		op->status = LEND_UNAVAILABLE;
	return op->status == LEND_OK;
}

bool client_put(struct client *c, struct take *take)
{
	struct lend_terms terms = {sizeof(terms), take->terms, 1, TTL_MS * MS, 0};
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {c->bytes, take->len};

	kill_fill(c->bytes, take->len, take->seed);
	if (!client_end(c, "put", &op, lend_put(c->mem, &iov, 1, &terms, &op)))
		return false;
	take->ref = op.ref;
	return true;
}

bool client_pass(struct client *c, lend_session server, const struct take *take)
{
	struct lend_call call = {.method = TAKE_METHOD, .timeout = SECOND};
	struct lend_op op = {.timeout = SECOND};
	int rc;

	call.request = lend_buf_take(c->ep, sizeof(*take));
	memcpy(call.request->data, take, sizeof(*take));
	call.request->len = sizeof(*take);
	rc = lend_call_sync(c->ep, server, &call);
	client_check(c->page, "call", rc, call.status);
	lend_buf_give(c->ep, call.request);
	lend_buf_give(c->ep, call.reply);
	if (take->terms != LEND_TRANSFER)
		(void)client_end(c, "release", &op, lend_release(c->mem, &take->ref, 1, &op));
	return rc == 0 && call.status != LEND_UNAVAILABLE;
}

bool client_lend(struct client *c, lend_session server, struct take *take)
{
	struct lend_call call = {.method = LEND_METHOD, .timeout = SECOND};
	struct iovec arg[2] = {{take, sizeof(*take)}, {c->bytes, take->len}};
	int rc;

	take->terms = LEND_OWNED;
	kill_fill(c->bytes, take->len, take->seed);
	lend_args_threshold_set(c->mem, sizeof(*take));
	rc = lend_call_sync_args(c->mem, server, &call, arg, 2);
	client_check(c->page, "call with arguments", rc, call.status);
	lend_buf_give(c->ep, call.request);
	lend_buf_give(c->ep, call.reply);
	return rc == 0 && call.status != LEND_UNAVAILABLE;
}
