#include "cn/pool/pool_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/fd_passing.h"
#include "sys/uffd.h"
#include "sys/last_error.h"

/* A POOL_DROP, or a FORGET of a POOL_MAP, under way. */
struct cn_drop {
	struct lend_call call; /* first */
	struct cn_node *node;
	uint64_t id, life; /* of the POOL_MAP: its operation id and its life; id 0: a POOL_DROP */
};

#define DROP_TIMEOUT UINT64_C(2000000000)

static const char *name_of(const struct cn_node *node)
{
	return node->address + 4; /* after "shm:" */
}

int cn_pool_join(struct cn_node *node)
{
	if (node->pool)
		return 0;
	node->pool = calloc(1, sizeof(*node->pool));
	if (!node->pool)
		return lend_fail(ENOMEM, "no memory for another pool");
	node->pool->sock = node->pool->file = -1;
	/* Opened now, in the process that it describes: after a fork, /proc/self is the child's
	 * own. */
	node->pool->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	node->pool->marks = lend_uffd_marks();
	return 0;
}

void cn_pool_map_drop(struct cn_pool_map *map)
{
	if (!map || --map->refs)
		return;
	munmap((void *)(uintptr_t)map->at, map->size);
	free(map);
}

static void detach_pool(struct cn_pool *pool)
{
	if (pool->sock < 0)
		return;
	close(pool->sock);
	close(pool->file);
	cn_window_close(pool->window);
	cn_pool_map_drop(pool->frames);
	pool->window = NULL;
	pool->frames = NULL;
	pool->sock = pool->file = -1;
	pool->key = 0;
}

/* Maps all frames, unless each read must check a checksum, which only the node can do. */
static struct cn_pool_map *map_all(const struct cn_pool *pool, const struct lend_fd_message *msg)
{
	struct cn_pool_map *map = NULL;
	void *at = MAP_FAILED;

	if (!(msg->flags & LEND_HANDOVER_CHECKSUM))
		map = malloc(sizeof(*map));
	if (map)
		at = lend_mapping_map_file(pool->file, pool->size, PROT_READ, MAP_SHARED);
	if (at == MAP_FAILED) {
		free(map);
		return NULL;
	}
	(void)madvise(at, pool->size, MADV_DONTFORK);
	*map = (struct cn_pool_map){at, pool->size, pool->page, 1};
	return map;
}

static void attach_pool(struct cn_node *node)
{
	struct cn_pool *pool = node->pool;
	struct lend_fd_message msg;
	int rc = lend_fd_passing_receive(name_of(node), &msg, &pool->sock, &pool->file);

	if (rc < 0) {
		pool->sock = pool->file = -1;
		(void)snprintf(pool->why, sizeof(pool->why), "%s", lend_why());
		return;
	}
	pool->key = msg.key;
	pool->size = msg.size;
	pool->page = msg.page;
	pool->window = cn_window_open(pool->file, pool->size, pool->pagemap);
	pool->frames = map_all(pool, &msg);
}

/* Returns whether the node closed its socket. Then it is gone; its successor has other pages. */
static bool is_gone(const struct cn_pool *pool)
{
	char byte;
	ssize_t n = recv(pool->sock, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

uint64_t cn_pool_key(struct cn_node *node)
{
	struct cn_pool *pool = node->pool;

	if (!pool)
		return 0;
	if (pool->doubt && pool->sock >= 0 && is_gone(pool))
		detach_pool(pool);
	if (pool->sock < 0 && (pool->doubt || !pool->why[0]))
		attach_pool(node);
	pool->doubt = false;
	return pool->key;
}

void cn_pool_leave(struct cn_node *node)
{
	if (!node->pool)
		return;
	detach_pool(node->pool);
	if (node->pool->pagemap >= 0)
		close(node->pool->pagemap);
	if (node->pool->marks >= 0)
		close(node->pool->marks);
	free(node->pool);
	node->pool = NULL;
}

bool cn_pool_take(struct cn_shown *shown, const struct lend_memview *view)
{
	shown->pinned_map = view->pinned_map;
	shown->base = view->base;
	shown->pages = view->pages;
	for (uint32_t i = 0; i < view->n; i++) {
		struct lend_memextent e = view->extent[i];
		struct lend_memextent *last = &shown->extent[shown->n - 1];

		if (e.pages > shown->pages - shown->received)
			return false;
		shown->received += e.pages;
		if (shown->n &&
		    (e.frame ? last->frame && last->frame + last->pages == e.frame : !last->frame))
			last->pages += e.pages;
		else if (shown->n < LEND_MEM_EXTENTS_MAX)
			shown->extent[shown->n++] = e;
		else
			shown->received -= e.pages; /* the view stays incomplete */
	}
	return true;
}

bool cn_pool_has_more(const struct cn_space *space)
{
	const struct cn_shown *shown = space->shown;

	return shown && shown->received < shown->pages && shown->n < LEND_MEM_EXTENTS_MAX;
}

bool cn_pool_shown(struct cn_op *op, const uint8_t *body, size_t len)
{
	struct cn_space *space = &op->mem->space[op->space];
	struct lend_memview view;
	struct cn_shown *shown;

	if (!lend_memview_decode(body, len, &view))
		return false;
	shown = malloc(sizeof(*shown));
	if (!shown)
		return true;
	memset(shown, 0, offsetof(struct cn_shown, extent));
	shown->key = op->mem->node[op->node]->pool->key;
	if (!cn_pool_take(shown, &view)) {
		free(shown);
		return false;
	}
	space->shown = shown;
	return true;
}

/* Frees the slot of a POOL_MAP when the node has forgotten it; else the cleaning repeats that. */
static void forget_done(struct cn_node *node, uint64_t id, const struct lend_call *call)
{
	if (call->ran != LEND_RAN_YES) {
		cn_forget_mark(node, id);
		return;
	}
	cn_id_free(node, id);
	if (call->status == LEND_ABORTED)
		cn_node_fenced(node);
}

static void drop_done(struct lend_call *call)
{
	struct cn_drop *drop = (struct cn_drop *)(void *)call;
	struct lend_mem *mem = drop->node->mem;

	if (call->request)
		lend_buf_give(mem->ep, call->request);
	if (call->reply)
		lend_buf_give(mem->ep, call->reply);
	mem->drops--;
	if (drop->id && drop->life == drop->node->life) {
		forget_done(drop->node, drop->id, call);
		cn_pump(mem);
	}
	free(drop);
}

/* Starts the call; id as in cn_drop. Returns false: nothing was started. */
static bool start_drop(struct cn_node *node, struct lend_memop *say, uint64_t id)
{
	struct cn_drop *drop = calloc(1, sizeof(*drop));

	if (!drop)
		return false;
	say->client = node->mem->client;
	say->life = node->life;
	say->low = node->low;
	*drop = (struct cn_drop){.node = node, .id = id, .life = node->life};
	drop->call.method = LEND_MEM_METHOD;
	drop->call.timeout = DROP_TIMEOUT;
	drop->call.done = drop_done;
	drop->call.request = cn_op_encode(node->mem, say);
	if (drop->call.request && lend_call_start(node->mem->ep, node->session, &drop->call) == 0) {
		node->mem->drops++;
		return true;
	}
	if (drop->call.request)
		lend_buf_give(node->mem->ep, drop->call.request);
	free(drop);
	return false;
}

void cn_pool_forget(struct cn_node *node, uint64_t id)
{
	struct lend_memop say = {.kind = LEND_MEMOP_FORGET, .target = id};

	if (node->state != CN_NODE_UP || !start_drop(node, &say, id))
		cn_forget_mark(node, id);
}

/* If POOL_DROP does not reach the node, the end of the socket has the same effect later. */
void cn_pool_unshow(struct lend_mem *mem, struct cn_space *space, bool forgotten)
{
	struct cn_node *node = mem->node[space->node];

	if (!space->shown)
		return;
	if (forgotten && node->pool && node->pool->key == space->shown->key &&
	    node->state == CN_NODE_UP && !mem->closing) {
		struct lend_memop say = {.kind = LEND_MEMOP_POOL_DROP,
					 .space = space->shown->pinned_map,
					 .target = space->shown->key};

		(void)start_drop(node, &say, 0);
	}
	free(space->shown);
	space->shown = NULL;
}
