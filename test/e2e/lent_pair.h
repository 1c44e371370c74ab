/* lent_pair - a caller that lends its memory, a reader of it, and a service between them if wanted:
 * endpoints of one thread. */
#ifndef TEST_E2E_LENT_PAIR_H
#define TEST_E2E_LENT_PAIR_H

#include "lend/mem.h"

#define SECOND UINT64_C(1000000000)
enum { LENT_KEEP = 1 }; /* method: keeps its request in lent.request, its argument in lent.seen */

extern struct lent_pair {
	struct lend_ep *caller, *middle, *reader; /* middle: NULL without a service between them */
	struct lend_mem *caller_mem, *reader_mem;
	char address[104]; /* of the reader */
	lend_session session;
	struct lend_arg seen;
	lend_request request;
	struct lend_op op; /* of lent_start_get() and lent_get_at() */
	struct iovec arg;  /* what the last call lent */
	bool overwrites;   /* the memory is overwritten as soon as the call has ended */
	int begun, ended, read_ops;
} lent;

/* carrier: "shm" or "udp". through: a service between them forwards all calls. */
void lent_open(const char *carrier);
void lent_open_through(const char *carrier);
void lent_open_reader(const char *carrier);
/* Returns when its session is up; connect does not wait. */
void lent_open_caller(const char *carrier, const char *to);
void lent_connect_caller(const char *carrier, const char *to);
void lent_close(void);
void lent_turn(void);
void lent_fill(void *bytes, uint64_t len, unsigned seed);
bool lent_is_filled(const void *bytes, uint64_t len, unsigned seed);
/* The same for a part that begins at an offset. */
bool lent_is_part(const void *bytes, uint64_t offset, uint64_t len, unsigned seed);
/* Starts a call that lends memory; begin returns when the reader has its request. */
void lent_start(struct lend_call *call, void *memory, uint64_t len);
void lent_begin(struct lend_call *call, void *memory, uint64_t len);
/* Ends the call; returns when it is done at the caller. */
void lent_finish(void);
enum lend_status lent_map(struct lend_arg_view *view);
enum lend_status lent_get(void *into, uint64_t len);
/* Reads a part of the argument. Start returns what lend_arg_get() does; lent.read_ops counts ends.
 */
int lent_start_get(void *into, uint64_t offset, uint64_t len);
enum lend_status lent_get_at(void *into, uint64_t offset, uint64_t len);

#endif
