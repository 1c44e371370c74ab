/* sim_node_buf - a node's buffers: handles, memory by size class, and the owner of each. With
 * sanitizers every buffer is a block of its own; without them blocks are reused. Layer:
 * test/sim. */
#include <stdlib.h>
#include <string.h>

#include "sim/sim_node.h"
#include "util/bits.h"

#ifdef __SANITIZE_ADDRESS__
enum { EXACT = 1 };
#else
enum { EXACT = 0 };
#endif

enum { CLASS_SHIFT = 6 };

/* Free blocks of all runs of this process, by class. The first 8 bytes point to the next block.
 * Large blocks are returned to the system. */
enum { KEPT = 11 }; /* classes: up to 64 KiB */
static void *blocks[KEPT];

static uint8_t class_of(uint32_t cap)
{
	uint8_t class = 0;

	while ((UINT64_C(1) << (class + CLASS_SHIFT)) < cap)
		class ++;
	return class;
}

static void *take_block(uint8_t class, uint32_t cap)
{
	bool kept = !EXACT && class < KEPT;
	void *block = kept ? blocks[class] : NULL;

	if (block) {
		memcpy(&blocks[class], block, sizeof(void *));
		return block;
	}
	block = malloc(kept ? (size_t)1 << (class + CLASS_SHIFT) : cap + !cap);
	LEND_CHECK(block);
	return block;
}

static void give_block(uint8_t class, void *block)
{
	if (EXACT || class >= KEPT) {
		free(block);
		return;
	}
	memcpy(block, &blocks[class], sizeof(void *));
	blocks[class] = block;
}

static uint32_t take_handle(struct sim *sim, struct sim_node *n)
{
	uint32_t b = n->free_buf;

	SIM_CHECK(sim, b, "node %u has no buffer left: they are never released", n->id);
	n->free_buf = n->bufs.seg[b].next;
	n->bufs_out++;
	n->buf[b].owner = SIM_BUF_OURS;
	return b;
}

uint32_t sim_node_buf(struct sim *sim, uint32_t node, uint32_t cap, uint32_t len)
{
	struct sim_node *n = &sim->node[node];
	uint32_t b = take_handle(sim, n);

	n->buf[b].class = class_of(cap);
	n->bufs.seg[b] = (struct lend_seg){take_block(n->buf[b].class, cap), len, cap, 0, 0};
	return b;
}

uint32_t sim_node_wrap(struct sim *sim, uint32_t node, void *data, uint32_t len)
{
	struct sim_node *n = &sim->node[node];
	uint32_t b = take_handle(sim, n);

	n->buf[b].class = SIM_WRAPPED;
	n->bufs.seg[b] = (struct lend_seg){data, len, len, 0, 0};
	return b;
}

static void put_back(struct sim_node *n, uint32_t b)
{
	if (n->buf[b].class != SIM_WRAPPED)
		give_block(n->buf[b].class, n->bufs.seg[b].data);
	n->buf[b].owner = SIM_BUF_FREE;
	n->bufs.seg[b].next = n->free_buf;
	n->free_buf = b;
	n->bufs_out--;
}

void sim_node_unbuf(struct sim *sim, uint32_t node, uint32_t buf)
{
	struct sim_node *n = &sim->node[node];

	for (uint32_t next; buf; buf = next) {
		SIM_CHECK(sim, buf < SIM_BUFS && n->buf[buf].owner == SIM_BUF_OURS,
			  "node %u: buffer %u is released twice or unknown", node, buf);
		next = n->bufs.seg[buf].next;
		put_back(n, buf);
	}
}

static void hand_over(struct sim *sim, uint32_t node, uint32_t buf, uint8_t from, uint8_t to)
{
	struct sim_node *n = &sim->node[node];

	for (; buf; buf = n->bufs.seg[buf].next) {
		SIM_CHECK(sim, buf < SIM_BUFS && n->buf[buf].owner == from,
			  "node %u: buffer %u changes its owner, but was not there", node, buf);
		n->buf[buf].owner = to;
	}
}

void sim_node_lend(struct sim *sim, uint32_t node, uint32_t buf)
{
	hand_over(sim, node, buf, SIM_BUF_OURS, SIM_BUF_CORE);
}

void sim_node_back(struct sim *sim, uint32_t node, uint32_t buf)
{
	hand_over(sim, node, buf, SIM_BUF_CORE, SIM_BUF_OURS);
}

void sim_node_bufs_open(struct sim_node *n)
{
	n->bufs.n = SIM_BUFS;
	n->bufs.seg = calloc(SIM_BUFS, sizeof(*n->bufs.seg));
	n->buf = calloc(SIM_BUFS, sizeof(*n->buf));
	LEND_CHECK(n->bufs.seg && n->buf);
	for (uint32_t b = SIM_BUFS - 1; b > 0; b--) {
		n->bufs.seg[b].next = n->free_buf;
		n->free_buf = b;
	}
}

/* Frees all of them, including those lent: the node is dead. */
void sim_node_bufs_drop(struct sim_node *n)
{
	for (uint32_t b = 1; b < SIM_BUFS && n->bufs_out; b++)
		if (n->buf[b].owner != SIM_BUF_FREE)
			put_back(n, b);
}

void sim_node_bufs_close(struct sim_node *n)
{
	sim_node_bufs_drop(n);
	free(n->bufs.seg);
	free(n->buf);
}
