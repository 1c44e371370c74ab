/* Goal: operations that a thread waits for go before bulk transfers, and these before readahead and
 * releases; an explicit priority applies to all of them. Method: a proxy in front of a node records
 * the priority of each kind of operation and forwards it. Covers: cn/op_call.c, cn/op_queue.c,
 * cn/paging/page_source.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "e2e/mem_node.h"
#include "wire/memop.h"

enum { LEN = 21 << 20, PAGES = 512 };

struct proxy {
	struct lend_ep *ep;
	char listen[64];
	const char *node;
	lend_session to;
	pthread_t thread;
	pthread_barrier_t ready;
	atomic_uint seen[256]; /* by kind: bit p was requested with priority p */
};
struct passing {
	struct lend_call call; /* must be the first member */
	struct proxy *proxy;
};

static void pass_done(struct lend_call *call)
{
	struct passing *p = (struct passing *)(void *)call;

	lend_buf_give(p->proxy->ep, call->request);
	lend_reply(p->proxy->ep, call->parent, call->status, call->reply);
	free(p);
}

static void pass_request(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct proxy *proxy = arg;
	struct passing *p = calloc(1, sizeof(*p));
	unsigned kind = *(const uint8_t *)bytes->data;

	atomic_fetch_or(&proxy->seen[kind], 1u << lend_request_priority(proxy->ep, request));
	p->proxy = proxy;
	p->call =
	    (struct lend_call){.method = LEND_MEM_METHOD, .parent = request, .done = pass_done};
	p->call.request = lend_request_take(proxy->ep, request);
	if (lend_call_start(proxy->ep, proxy->to, &p->call) < 0) {
		lend_reply(proxy->ep, request, LEND_RESOURCE_EXHAUSTED, p->call.request);
		free(p);
	}
}

static void *serve_proxy(void *arg)
{
	struct proxy *proxy = arg;
	struct lend_config config = LEND_CONFIG_INIT;

	config.listen = proxy->listen;
	cr_assert_eq(lend_open(&config, &proxy->ep), 0, "%s", lend_why());
	cr_assert_eq(lend_connect(proxy->ep, proxy->node, &proxy->to), 0, "%s", lend_why());
	cr_assert_eq(lend_serve(proxy->ep, LEND_MEM_METHOD, pass_request, proxy, LEND_RESERVED), 0);
	pthread_barrier_wait(&proxy->ready);
	(void)lend_run(proxy->ep, LEND_NEVER);
	lend_close(proxy->ep);
	return NULL;
}

static void start_proxy(struct proxy *proxy, struct mem_node *node, struct lend_ep **ep,
			struct lend_mem **mem)
{
	mem_node_start(node, "udp", "128M", "");
	memset(proxy, 0, sizeof(*proxy));
	proxy->node = node->address;
	snprintf(proxy->listen, sizeof(proxy->listen), "shm:proxy%d", (int)getpid());
	pthread_barrier_init(&proxy->ready, NULL, 2);
	cr_assert_eq(pthread_create(&proxy->thread, NULL, serve_proxy, proxy), 0);
	pthread_barrier_wait(&proxy->ready);
	cr_assert_eq(lend_open(NULL, ep), 0);
	cr_assert_eq(lend_mem_open(*ep, proxy->listen, mem), 0, "%s", lend_why());
}

static void stop_proxy(struct proxy *proxy, struct mem_node *node, struct lend_ep *ep,
		       struct lend_mem *mem)
{
	mem_client_close(ep, mem);
	lend_stop(proxy->ep);
	pthread_join(proxy->thread, NULL);
	pthread_barrier_destroy(&proxy->ready);
	mem_node_kill(node);
}

/* The priorities seen of a kind since the last query. */
static unsigned take_seen(struct proxy *proxy, unsigned kind)
{
	return atomic_exchange(&proxy->seen[kind], 0);
}

static enum lend_status put_object(struct lend_mem *mem, char *bytes, size_t len, uint8_t priority,
				   struct lend_ref *ref)
{
	struct lend_op op = {.priority = priority, .timeout = 20 * SECOND};
	struct iovec iov = {bytes, len};
	enum lend_status status = mem_end(mem, &op, lend_put(mem, &iov, 1, NULL, &op));

	*ref = op.ref;
	return status;
}

Test(mem_priority, of_each_kind)
{
	char *bytes = calloc(1, LEN);
	struct lend_ref ref, more;
	struct lend_ep *ep;
	struct lend_mem *mem;
	struct proxy proxy;
	struct mem_node node;

	start_proxy(&proxy, &node, &ep, &mem);
	cr_expect_eq(put_object(mem, bytes, 100, 0, &more), LEND_OK);
	cr_expect_eq(take_seen(&proxy, LEND_MEMOP_PUT), 1u << LEND_NORMAL);
	cr_expect_eq(put_object(mem, bytes, LEN, 0, &ref), LEND_OK);
	cr_expect_eq(take_seen(&proxy, LEND_MEMOP_WRITE), 1u << (LEND_NORMAL + 1));
	cr_expect_eq(mem_get(mem, &ref, 0, bytes, LEN), LEND_OK);
	cr_expect_eq(take_seen(&proxy, LEND_MEMOP_GET), 1u << (LEND_NORMAL + 1));
	cr_expect_eq(mem_get(mem, &ref, 0, bytes, 4096), LEND_OK);
	cr_expect_eq(take_seen(&proxy, LEND_MEMOP_GET), 1u << LEND_NORMAL);
	cr_expect_eq(mem_release(mem, &ref), LEND_OK);
	cr_expect_eq(put_object(mem, bytes, LEN, 2, &ref), LEND_OK);
	cr_expect_eq(take_seen(&proxy, LEND_MEMOP_WRITE), 1u << 2);
	cr_expect_eq(mem_release(mem, &ref), LEND_OK);
	cr_expect_eq(mem_release(mem, &more), LEND_OK);
	stop_proxy(&proxy, &node, ep, mem);
	free(bytes);
}

Test(mem_priority, of_touches_and_guesses)
{
	char *bytes = calloc(PAGES, 4096), *at;
	struct lend_op op = {.timeout = 20 * SECOND};
	struct lend_ref ref;
	struct lend_ep *ep;
	struct lend_mem *mem;
	struct proxy proxy;
	struct mem_node node;
	lend_space space;

	start_proxy(&proxy, &node, &ep, &mem);
	cr_assert_eq(put_object(mem, bytes, PAGES * 4096, 0, &ref), LEND_OK);
	space = mem_map(mem, &ref);
	at = lend_space_pointer(mem, space);
	if (at) { /* where userfaultfd is not permitted there are no touches */
		cr_expect_eq(at[300 * 4096], 0);
		cr_expect_eq(take_seen(&proxy, LEND_MEMOP_READ), 1u << LEND_NORMAL);
		for (int i = 0; i < 256; i++)
			cr_expect_eq(at[i * 4096], 0);
		cr_expect_eq(take_seen(&proxy, LEND_MEMOP_READ),
			     1u << LEND_NORMAL | 1u << (LEND_BULK - 1));
		cr_expect_eq(
		    mem_end(mem, &op, lend_space_prefetch(mem, space, 400 * 4096, 50 * 4096, &op)),
		    LEND_OK);
		cr_expect_eq(take_seen(&proxy, LEND_MEMOP_READ), 1u << (LEND_BULK - 1));
	}
	mem_free_space(mem, space);
	cr_expect_eq(mem_release(mem, &ref), LEND_OK);
	stop_proxy(&proxy, &node, ep, mem);
	free(bytes);
}

Test(mem_priority, one_that_does_not_exist_is_refused)
{
	struct lend_op op = {.priority = LEND_BULK + 1};
	struct iovec iov = {(char[]){1}, 1};
	struct mem_node node;

	mem_node_start(&node, "shm", "16M", "");
	cr_expect_eq(lend_put(node.mem, &iov, 1, NULL, &op), -EINVAL);
	cr_expect(strstr(lend_why(), "priority 9"));
	mem_node_stop(&node);
}
