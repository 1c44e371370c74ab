/* args/args - calls and replies with large arguments by reference.
 *
 *   call   put large arguments -> call -> its end -> release what was put
 *          several hops: the call starts when the nodes have reserved the pages; bytes follow
 *   reply  put large arguments, TRANSFER -> reply
 *   call   lend large arguments -> call -> end of the loans
 *   reply  lend results -> reply -> end of each loan: released, ttl, or end of the session
 *   both   references that the user gives are sent as they are
 *
 * An argument that no node took is sent by value, if the message is not longer than the peer takes.
 * While that is possible, a put waits for CN_ARGS_WAIT and the time of its bytes on a slow network,
 * but for no more than half of the time left to the deadline. Layer: cn. Threads: the endpoint's.
 * One block per call or reply that has something to put, lend or wrap; it frees itself. */
#ifndef LEND_CN_ARGS_ARGS_H
#define LEND_CN_ARGS_ARGS_H

#include "cn/client.h"

enum { CN_ARGS_COPY_MAX = 4096 }; /* longer inline pieces are wrapped, not copied */
#define CN_ARGS_WAIT    UINT64_C(250000000)
#define CN_ARGS_BYTE_NS 100

struct cn_put {
	struct lend_op op;
	struct cn_args *args;
	struct cn_arg *arg;
	bool kept; /* its bytes are on the node, on their way there, or lent; not after the end of
		      the loan */
	bool lent;
	bool late; /* the message may go, and has the reference; its bytes are on their way */
};

/* How an argument is planned to travel. A PUT or LEND that failed is sent inline. */
enum cn_arg_plan { CN_ARG_INLINE, CN_ARG_REF, CN_ARG_LEND, CN_ARG_PUT };
struct cn_arg {
	const struct iovec *piece; /* array of the n pieces; unused if n is 1: see `one` */
	struct iovec one;
	uint32_t n;
	uint8_t plan;
	uint64_t len;        /* bytes of all pieces, or of the reference */
	struct lend_ref ref; /* CN_ARG_REF: the reference */
	const char *home;    /* CN_ARG_REF: address of the caller that lends; NULL: of a node */
	struct cn_put *put;  /* CN_ARG_LEND, CN_ARG_PUT: its loan or its put */
	void *gathered;      /* LEND of several pieces: their copy; owned */
};

static inline const struct iovec *cn_arg_pieces(const struct cn_arg *arg)
{
	return arg->n == 1 ? &arg->one : arg->piece;
}

/* Returns the reference that is sent for an argument; NULL: its bytes are sent. */
static inline const struct lend_ref *cn_arg_ref(const struct cn_arg *arg)
{
	if (arg->plan == CN_ARG_REF)
		return &arg->ref;
	return arg->put && arg->put->kept ? &arg->put->op.ref : NULL;
}

/* Puts are under way (busy > 0) -> the call is -> ended -> freed when wraps is 0. */
struct cn_args {
	TAILQ_ENTRY(cn_args) link;
	LIST_ENTRY(cn_args) pass; /* while `passes`: calls for which the endpoint relays reads */
	struct lend_mem *mem;     /* NULL: closed; the last wrap frees this */
	struct cn_arg *arg;       /* the n arguments, in this block */
	const char *home;         /* where lent arguments are read; NULL: none is lent */
	lend_ns wait;             /* time limit of its puts; 0: the deadline only */
	uint32_t n, puts;
	uint32_t busy;  /* puts under way */
	uint32_t wraps; /* segments of the caller's memory that a carrier may still use, and puts
			   that still send their bytes */
	bool cancelled, ended;
	bool passes;             /* passes references to lent memory on */
	bool early;              /* the call may start before its puts are complete */
	bool lost;               /* the bytes of a put did not arrive */
	struct lend_alarm alarm; /* ends puts that are not complete after the call */
	bool in_flight;          /* the call has started */
	bool replied;  /* the reply was sent: the references that were put are the caller's */
	lend_ns until; /* reply with loans that was sent: when they end at the latest */
	enum lend_status status;
	struct lend_call *user; /* the caller's call; NULL: a reply */
	struct lend_call call;
	lend_session session;
	lend_ns deadline;
	lend_ns began; /* if `tag` is not 0 */
	uint8_t tag;   /* the call is tried (inline_threshold.h); 0: it is not */
	lend_request request;
	enum lend_status answer;
	void (*gone_iovec)(const struct iovec *arg); /* reply: runs when its bytes are
							no longer used; else gone(of), if set */
	const struct iovec *given;
	void (*gone)(void *of);
	void *of;
	struct cn_put put[];
};

/* args.c: start a call or a reply from a block that is filled in. It may have ended when these
 * return. */
void cn_args_start_call(struct cn_args *a, lend_session session, struct lend_call *call);
void cn_args_start_reply(struct cn_args *a);
void cn_args_cancel(struct cn_args *a);
void cn_args_wrap_gone(void *args);
/* For lend_mem_close(). cancel_all: cancels all calls that are not cancelled yet. detach: lets
 * replies that a peer still reads continue without their client. */
void cn_args_cancel_all(struct lend_mem *mem);
void cn_args_detach(struct lend_mem *mem);
bool cn_args_busy(const struct lend_mem *mem, bool late);

/* Ends one loan of a result, which its receiver needs no more. Returns false: ref is of no result,
 * or a slice. */
bool cn_args_release(struct cn_args *args, const struct lend_ref *ref);
/* Ends the results that have expired or have lost their session; all: every one. Returns when to
 * call it again; LEND_NEVER: no result is left. */
lend_ns cn_args_expire(struct lend_mem *mem, bool all);

/* args_plan.c: the planning of the arguments of one call or reply. */
struct cn_planning {
	struct lend_mem *mem;
	lend_session session;
	uint32_t method;
	lend_request parent;
	bool is_call;
	const char *home; /* out: for lent arguments, valid as long as the lender; NULL: none */
	uint32_t puts;    /* out: arguments to put or to lend */
	uint32_t wraps;   /* out: whether pieces are wrapped */
	uint32_t passes;  /* out: whether a call passes lent memory of others on */
	uint8_t tag;      /* out: of a call that is tried (inline_threshold.h); 0: not tried */
};
/* Checks n arguments and decides how each travels. Returns 0, or -EINVAL. */
int cn_args_plan(struct cn_planning *p, const struct lend_argument *in, uint32_t n,
		 struct cn_arg *out);

/* Lends an argument's memory, or a copy of several pieces. Returns false: not possible now. */
bool cn_args_lend(struct cn_args *a, struct cn_put *put);

/* args_message.c: writes the message of n arguments: references of those that have one, the bytes
 * of the others. a NULL: all are copied. Returns NULL with *fine false: no memory; an empty message
 * is NULL, too. */
struct lend_buf *cn_args_message(struct lend_ep *ep, const struct cn_arg *arg, uint32_t n,
				 struct cn_args *a, bool *fine);
/* size: bytes of the message with all arguments inline. fit: whether the session's peer takes a
 * message that long. */
uint64_t cn_args_size(const struct cn_arg *arg, uint32_t n);
bool cn_args_fit(struct lend_ep *ep, lend_session session, const struct cn_arg *arg, uint32_t n);

#endif
