/* args/args - calls and replies with large arguments by reference.
 *
 *   call   put large arguments -> call -> its end -> release what was put
 *   reply  put large arguments, TRANSFER -> reply
 *   call   lend large arguments -> call -> end of the loans (lend_args_place())
 *
 * An argument that no node took is sent by value, if the message is not longer than the peer takes.
 * While that is possible, a put waits for CN_ARGS_WAIT and the time of its bytes on a slow network,
 * but for no more than half of the time left to the deadline. Layer: cn. Threads: the endpoint's.
 * One block per call or reply that has something to put or to wrap; it frees itself. */
#ifndef LEND_CN_ARGS_ARGS_H
#define LEND_CN_ARGS_ARGS_H

#include "cn/client.h"

enum { CN_ARGS_COPY_MAX = 4096 }; /* longer inline arguments are wrapped, not copied */
#define CN_ARGS_WAIT    UINT64_C(250000000)
#define CN_ARGS_BYTE_NS 100

struct cn_put {
	struct lend_op op;
	struct cn_args *args;
	bool kept; /* the node has it, or it is lent */
	bool lent;
};

/* PUTTING (busy) -> CALLING or waits -> ended -> gone, when wraps is zero */
struct cn_args {
	TAILQ_ENTRY(cn_args) link;
	struct lend_mem *mem; /* NULL: closed; the last wrap frees this */
	const struct iovec *arg;
	struct iovec one;
	uint64_t inline_max;
	const char *home; /* where lent arguments are read; NULL: none is lent */
	lend_ns wait;     /* time limit of its puts; 0: the deadline only */
	uint32_t n, refs;
	uint32_t busy;  /* puts under way */
	uint32_t wraps; /* segments of the caller's memory that a carrier may still use */
	bool cancelled, ended;
	bool flying, waits; /* the call is under way; it waits for a call slot */
	enum lend_status status;
	struct lend_call *user; /* the caller's call; NULL: a reply */
	struct lend_call call;
	lend_session session;
	lend_ns deadline;
	lend_request request;
	enum lend_status answer;
	void (*gone)(const struct iovec *arg);
	const struct iovec *given;
	struct cn_put put[];
};

/* args.c. The block must be filled in. The call or reply may have ended when these return. */
void cn_args_start_call(struct cn_args *a, lend_session session, struct lend_call *call);
void cn_args_start_reply(struct cn_args *a);
void cn_args_cancel(struct cn_args *a);
void cn_args_wrap_gone(void *args);
/* For lend_mem_close(). cancel_all: cancels all that are not cancelled yet. detach: replies that a
 * peer still reads continue without their client. */
void cn_args_cancel_all(struct lend_mem *mem);
void cn_args_detach(struct lend_mem *mem);
bool cn_args_busy(const struct lend_mem *mem, bool late);

/* args_message.c: writes the message of n arguments. Arguments longer than inline_max go by the
 * references in a, unless their put failed. a NULL: all are copied. Returns NULL with *fine false:
 * no memory; an empty message is NULL, too. */
struct lend_buf *cn_args_message(struct lend_ep *ep, const struct iovec *arg, uint32_t n,
				 uint64_t inline_max, struct cn_args *a, bool *fine);
/* size: bytes of the message with all arguments inline. fit: whether the session's peer takes a
 * message that long. */
uint64_t cn_args_size(const struct iovec *arg, uint32_t n);
bool cn_args_fit(struct lend_ep *ep, lend_session session, const struct iovec *arg, uint32_t n);

#endif
