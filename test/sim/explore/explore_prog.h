/* explore_prog - inside a node: its memory during a step, and its program. Layer: test. */
#ifndef SIM_EXPLORE_EXPLORE_PROG_H
#define SIM_EXPLORE_EXPLORE_PROG_H

#include <string.h>

#include "sim/explore/explore_node.h"

/* Buffers by handle. Those of messages always hold the message, so a datagram can refer to a piece
 * of it. */
enum {
	EX_BUF_REQUEST = 1,
	EX_BUF_REPLY = EX_BUF_REQUEST + EX_IDS,
	EX_BUF_SUPPLY = EX_BUF_REPLY + EX_IDS,
	EX_SUPPLY_MAX = 4,
	EX_BUF_ATTACH = EX_BUF_SUPPLY + EX_SUPPLY_MAX, /* for a request, by id; then for a reply */
	EX_BUF_DYN = EX_BUF_ATTACH + 2 * EX_IDS,
	EX_BUFS = EX_BUF_DYN + EX_REQS,
	EX_UNSCHEDULED = 4096,
	EX_MESSAGE_MAX = 8192,
	EX_METHOD = 100,
};

struct ex_node {
	const struct ex_scope *scope;
	uint32_t index;
	lend_ns now;
	struct lend_core_config cfg;
	struct lend_core *core;
	struct lend_store_config store_cfg;
	struct lend_store *store; /* NULL: none */
	uint8_t *pages, *scratch;
	struct ex_app app;
	struct lend_seg seg[EX_BUFS];
	struct lend_bufs bufs;
	uint8_t *memory; /* all buffers of seg */
	struct ex_effect *fx;

	struct ex_blobs states;
	struct ex_table steps;
	uint8_t *image;
	uint32_t image_len;
};

static inline bool ex_serves(const struct ex_node *n)
{
	return n->index == n->scope->nodes - 1;
}

/* Records a failed oracle; the first one counts. */
static inline void ex_bad(struct ex_node *n, const char *what)
{
	if (!n->fx->bad)
		n->fx->bad = what;
}

/* Returns the number of its i-th call among those of all its incarnations. */
static inline uint32_t ex_own(const struct ex_node *n, uint32_t i)
{
	return n->app.inc * EX_PER + i;
}

/* Open and close a node's memory, and fill it with the messages. */
void ex_buf_open(struct ex_node *n);
void ex_buf_close(struct ex_node *n);
void ex_buf_supply(struct ex_node *n);
void ex_buf_lend(struct ex_node *n, uint32_t buf);
/* A buffer is returned; 0 is none. */
void ex_buf_back(struct ex_node *n, uint32_t buf);
/* Fills buffers to match the core's state: the received fragments of a message, and poison
 * elsewhere. */
void ex_buf_refill(struct ex_node *n);
void ex_buf_audit(struct ex_node *n);
/* True when data has the bytes of a message from byte first on. */
static inline bool ex_same(const void *data, uint32_t message, uint32_t first, uint32_t len,
			   const struct ex_node *n)
{
	return !memcmp(data, (const uint8_t *)n->seg[message].data + first, len);
}

/* Open and close the store of all datagrams of a world. */
void ex_dgrams_open(void);
void ex_dgrams_close(void);
/* Returns the number of datagrams and sets the bytes that they take. */
uint64_t ex_dgrams_stats(uint64_t *bytes);
uint32_t ex_dgram_len(uint32_t id);
void ex_send(struct ex_node *n, struct ex_dgram *g);
void ex_emit(struct ex_node *n, const struct lend_out *out);
void ex_deliver(struct ex_node *n, uint32_t id);

void ex_prog_event(struct ex_node *n, const struct lend_event *e);
/* Handles an input other than a datagram or time. */
void ex_prog_act(struct ex_node *n, uint64_t input);
void ex_prog_audit(struct ex_node *n);
/* Shifts its times with the core's. */
void ex_prog_canon(struct ex_node *n);
uint32_t ex_prog_api(const struct ex_node *n);

/* The same for memory clients and memory nodes: explore_mem.c. */
void ex_mem_open(struct ex_node *n);
void ex_mem_start(struct ex_node *n);
void ex_mem_close(struct ex_node *n);
/* Sends the current operation of the program, or FORGET of it. */
void ex_mem_op(struct ex_node *n, bool forget);
void ex_mem_passed(struct ex_node *n, const struct ex_dgram *g);
void ex_mem_end(struct ex_node *n, const struct lend_event *e);
void ex_mem_serve(struct ex_node *n, const struct lend_event *e);
void ex_mem_attr(struct ex_node *n, struct ex_attr *a);
bool ex_mem_wants(const struct ex_node *n);

#endif
