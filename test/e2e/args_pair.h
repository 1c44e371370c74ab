/* args_pair - a caller and a callee of calls with arguments, two endpoints of one thread that run
 * alternate turns, and the memory node between them. */
#ifndef TEST_E2E_ARGS_PAIR_H
#define TEST_E2E_ARGS_PAIR_H

#include "e2e/mem_node.h"

/* Methods: answers with its arguments; refuses; keeps the request in kept; in late. */
enum { ECHO = 1, REFUSE, KEEP, LATER, MANY = 6, BIG = 300000 };

struct side {
	struct lend_ep *ep;
	struct lend_mem *mem;
};

extern struct mem_node node;
extern struct side caller, callee;
extern lend_session session;
extern lend_request kept, late[64];
extern int jobs, ends, lates; /* echoes in progress; calls that ended; requests in late */
extern const struct iovec three[3];
extern const char *node_more; /* arguments of lend-mn */
extern uint64_t callee_takes; /* its message_max; 0: the default */

/* carrier: as mem_node_start(). calls: slots of a session, 0: the default. */
void open_all(const char *carrier, const char *size, uint32_t calls);
void open_caller(uint32_t calls);
void open_callee(const char *carrier);
void close_side(struct side *side);
void close_all(void); /* nothing may be left anywhere */
void turn(void);
void ended(struct lend_call *call);
/* Starts a call, which may end before that returns, and waits until it has ended. */
#define WAIT_FOR(start)                                                                            \
	do {                                                                                       \
		int ends_before = ends;                                                            \
                                                                                                   \
		cr_assert_eq(start, 0, "%s", lend_why());                                          \
		while (ends == ends_before)                                                        \
			turn();                                                                    \
	} while (0)
/* Waits for an operation that was started with result rc. */
void finish(struct lend_op *op, int rc);
/* Waits until nothing is in flight and the node holds nothing. */
void settle(const char *what, int turns);
/* Compares the reply with the bytes sent, or reads nothing; releases it. */
void compare(const struct lend_buf *reply, const struct iovec *want, int n);
void drop_reply(struct lend_call *call);

#endif
