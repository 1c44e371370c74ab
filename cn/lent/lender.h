/* lender - the caller's side of lent arguments: the table of what an endpoint lends, and its GETs.
 *
 * A reader calls CN_LENT_METHOD with a GET (wire/memop.h) on a session to the caller's address.
 * The reply wraps the lent memory. When a loan ends, replies that are still in flight are
 * withdrawn; the loan's owner has its memory back when no carrier reads it any more, whatever the
 * reader does. Layer: cn. Threads: the endpoint's; join and leave: any. One per endpoint, shared by
 * its clients, reference-counted. */
#ifndef LEND_CN_LENT_LENDER_H
#define LEND_CN_LENT_LENDER_H

#include "cn/client.h"

/* The one method of a lender. */
#define CN_LENT_METHOD 0x4c454e41u

/* Returns the endpoint's lender with another reference to it; NULL: no memory. */
struct cn_lender *cn_lender_join(struct lend_ep *ep);
void cn_lender_leave(struct cn_lender *lender);
/* Returns the address at which callees of this session can reach the endpoint, of the session's
 * carrier, valid as long as the lender; NULL: there is none. */
const char *cn_lender_home(struct cn_lender *lender, lend_session session);
struct cn_relays;
/* Returns what the client's endpoint relays; NULL: no memory. */
struct cn_relays *cn_lender_relays(struct lend_mem *mem);
/* Lends memory for args, or without a call if args is NULL, and writes its reference. Returns
 * false: the table is full. args->wraps counts the replies that carriers still read; they call
 * cn_args_wrap_gone(args). */
bool cn_lent_begin(struct cn_lender *lender, const struct iovec *memory, struct cn_args *args,
		   struct lend_ref *ref);
/* Lets no reader begin a read of a published loan any more: it ends ABORTED. */
void cn_lent_expire(struct cn_lender *lender, const struct lend_ref *ref);
/* Returns whether a reference was made by this lender. */
bool cn_lender_made(const struct cn_lender *lender, const struct lend_memref *ref);
/* Ends a loan: no further GET of it is answered, and no further byte of it is sent. */
void cn_lent_end(struct cn_lender *lender, const struct lend_ref *ref);

#endif
