/* node_one_sided - payloads that do not travel in messages: pages that a client's device reads, and
 * memory of a client that the node's device reads into pages.
 *
 * Layer: mn. Threads: the endpoint's. Owner: node_server.c. */
#ifndef MN_NODE_ONE_SIDED_H
#define MN_NODE_ONE_SIDED_H

#include "lend/rpc.h"
#include "mn/store/exec.h"

struct mn_fetches;

/* Returns whether the operation's bytes do not travel in messages. Copies its head without that
 * flag, and sets its length. */
bool mn_one_sided_head(const struct lend_buf *bytes, uint8_t head[LEND_MEMOP_FIXED_MAX],
		       uint32_t *len);
/* Shows the pages of a reply to the session, and replies with what the client needs to read them.
 * They stay pinned until they are hidden. Otherwise the status to end with, with nothing taken. */
enum lend_status mn_one_sided_show(struct lend_ep *ep, struct lend_store *store,
				   lend_session session, lend_request request,
				   const struct lend_store_out *out);

/* Runs a request whose bytes are there. */
typedef void mn_fetched_fn(lend_request request, struct lend_buf *message, void *arg);
/* Chooses where a message of len bytes that begins with head goes. */
typedef struct lend_buf *mn_choose_fn(lend_session session, uint32_t method, uint64_t len,
				      const void *head, uint32_t n, void *arg);

struct mn_fetches *mn_fetches_open(struct lend_ep *ep, mn_choose_fn *choose, mn_fetched_fn *fetched,
				   void *arg);
/* Reads the payload of a request from the client's memory, and then runs fetched() with a message
 * that is as if it had arrived whole, which it takes. head: from mn_one_sided_head(). Replies
 * UNIMPLEMENTED if the payload cannot be read, FAILED_PRECONDITION if there is no link. */
void mn_fetches_start(struct mn_fetches *fetches, lend_session session, lend_request request,
		      const struct lend_buf *bytes, const uint8_t *head, uint32_t head_len);
/* Call it after lend_close(). */
void mn_fetches_close(struct mn_fetches *fetches);

#endif
