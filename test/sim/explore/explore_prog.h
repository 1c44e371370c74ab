/* explore_prog - inside a node: its memory while a step runs, and its program. Layer: test. */
#ifndef SIM_EXPLORE_EXPLORE_PROG_H
#define SIM_EXPLORE_EXPLORE_PROG_H

#include <string.h>

#include "sim/explore/explore_node.h"

/* Buffers by handle. Those of messages always hold the message, so a datagram can name a piece. */
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
	uint8_t *memory; /* behind seg */
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

/* The first oracle to fail counts. */
static inline void ex_bad(struct ex_node *n, const char *what)
{
	if (!n->fx->bad)
		n->fx->bad = what;
}

/* The number of its i-th call among those of all its incarnations. */
static inline uint32_t ex_own(const struct ex_node *n, uint32_t i)
{
	return n->app.inc * EX_PER + i;
}

/* Memory of a node and its first bytes. */
void ex_buf_open(struct ex_node *n);
void ex_buf_close(struct ex_node *n);
void ex_buf_supply(struct ex_node *n);
void ex_buf_lend(struct ex_node *n, uint32_t buf);
/* It came back; 0 is none. */
void ex_buf_back(struct ex_node *n, uint32_t buf);
/* Buffers as the core's state says: what is there of a message in them, the rest is poison. */
void ex_buf_refill(struct ex_node *n);
void ex_buf_audit(struct ex_node *n);
/* These bytes are those of a message from its byte first on. */
static inline bool ex_same(const void *data, uint32_t message, uint32_t first, uint32_t len,
			   const struct ex_node *n)
{
	return !memcmp(data, (const uint8_t *)n->seg[message].data + first, len);
}

/* All datagrams of a world. */
void ex_dgrams_open(void);
void ex_dgrams_close(void);
/* How many, and bytes that they take. */
uint64_t ex_dgrams_stats(uint64_t *bytes);
uint32_t ex_dgram_len(uint32_t id);
void ex_send(struct ex_node *n, struct ex_dgram *g);
void ex_emit(struct ex_node *n, const struct lend_out *out);
void ex_deliver(struct ex_node *n, uint32_t id);

void ex_prog_event(struct ex_node *n, const struct lend_event *e);
/* An input that is not a datagram or time. */
void ex_prog_act(struct ex_node *n, uint64_t input);
void ex_prog_audit(struct ex_node *n);
/* Its times move with the core's. */
void ex_prog_canon(struct ex_node *n);
uint32_t ex_prog_api(const struct ex_node *n);

/* The same with a memory node: explore_mem.c. */
void ex_mem_open(struct ex_node *n);
void ex_mem_start(struct ex_node *n);
void ex_mem_close(struct ex_node *n);
/* The operation that the program is at, or FORGET of it. */
void ex_mem_op(struct ex_node *n, bool forget);
void ex_mem_passed(struct ex_node *n, const struct ex_dgram *g);
void ex_mem_end(struct ex_node *n, const struct lend_event *e);
void ex_mem_serve(struct ex_node *n, const struct lend_event *e);
void ex_mem_attr(struct ex_node *n, struct ex_attr *a);
bool ex_mem_wants(const struct ex_node *n);

#endif
