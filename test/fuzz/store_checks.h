/* store_checks - a memory node's store with clients that remember their objects; the contract of
 * mn/store/exec.h is checked at every operation.
 * Checked: the status is a canonical one; a reply is inside the pages or its header; malformed
 * operations and unknown clients change nothing; other failures change only the operation's record,
 * low water and the lease. Layer: test. One node per process; node_open() resets it. */
#ifndef TEST_FUZZ_STORE_CHECKS_H
#define TEST_FUZZ_STORE_CHECKS_H

#include "fuzz/choice.h"
#include "mn/store/store.h"

enum {
	NODE_PAGES = 20,
	NODE_CLIENTS = 6, /* two of each of three processes */
	NODE_SEEN = 12,
	NODE_PINS = 4,
	NODE_PLACED = 3,
	NODE_MESSAGE = 8 * LEND_MEM_PAGE,
};

struct node_client {
	struct lend_store_peer peer; /* its session */
	uint32_t number;
	uint64_t life;
	uint8_t key[LEND_MEMOP_KEY];
	uint64_t id, low; /* ids of the newest operation */
};

/* A message as received: header, fields, payload. */
struct node_message {
	uint32_t client;
	uint32_t len;
	uint32_t placement; /* 0: none; else its payload is in frames */
	uint32_t fixed, segs;
	struct lend_store_seg seg[LEND_STORE_SEGS_MAX];
	uint8_t bytes[NODE_MESSAGE];
};

struct node {
	struct lend_store *store;
	lend_ns now;
	struct node_client client[NODE_CLIENTS];
	struct lend_memref ref[NODE_SEEN];
	struct lend_memspace space[NODE_SEEN];
	uint32_t ref_n, space_n;
	struct lend_store_out out[NODE_PINS]; /* pinned replies, and the current one */
	bool pinned[NODE_PINS];
	struct node_message placed[NODE_PLACED];
};

extern struct node node;

void node_open(void);
/* All clients hang up, all grants end: everything must be free, all ledgers agree. */
void node_close(void);
void node_audit(void);
void node_tick(lend_ns later);
/* Encodes an operation of a client, with mostly valid fields. */
void node_say(struct choice *c, struct node_message *m);
/* One to three changes of its bytes or its length. */
void node_spoil(struct choice *c, struct node_message *m);
/* Places its payload in frames, if the store wants that. */
void node_place(struct node_message *m);
/* Runs it in segments that split at odd offsets. */
void node_run(struct choice *c, struct node_message *m);
/* An operation of this client ran: fails unless it was permitted by the store's earlier state. */
void node_expect_allowed(const struct lend_store *was, const struct lend_memop *op,
			 uint32_t client);
/* Gives back a pinned reply, if there is one. */
void node_done(uint32_t i);

#endif
