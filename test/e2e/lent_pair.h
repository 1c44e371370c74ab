/* lent_pair - a caller that lends its memory and a reader of it, two endpoints of one thread. */
#ifndef TEST_E2E_LENT_PAIR_H
#define TEST_E2E_LENT_PAIR_H

#include "lend/mem.h"

#define SECOND UINT64_C(1000000000)
enum { LENT_KEEP = 1 }; /* method: keeps its request in lent.request, its argument in lent.seen */

extern struct lent_pair {
	struct lend_ep *caller, *reader;
	struct lend_mem *caller_mem, *reader_mem;
	lend_session session;
	struct lend_arg seen;
	lend_request request;
	int begun, ended, read_ops;
} lent;

/* carrier: "shm" or "udp". */
void lent_open(const char *carrier);
void lent_open_reader(const char *carrier);
void lent_open_caller(const char *carrier, const char *to);
void lent_close(void);
void lent_turn(void);
void lent_fill(void *bytes, uint64_t len, unsigned seed);
bool lent_is_filled(const void *bytes, uint64_t len, unsigned seed);
/* Starts a call that lends memory; returns when the reader has its request. */
void lent_begin(struct lend_call *call, void *memory, uint64_t len);
void lent_finish(void);
enum lend_status lent_map(struct lend_arg_view *view);
enum lend_status lent_get(void *into, uint64_t len);

#endif
