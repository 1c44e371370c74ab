/* unwritten_reads - requests that read a snapshot before its bytes are there.
 *
 * A request waits until the put of its snapshot is complete, or has ended without bytes; then it
 * runs again. It leaves at its deadline, when its caller cancels it, and with its session. The
 * number of requests is limited. A session may have as many as there are free places left, so that
 * one cannot take all.
 * Layer: mn. Threads: the endpoint's. Owner: node_server. */
#ifndef MN_UNWRITTEN_READS_H
#define MN_UNWRITTEN_READS_H

#include "lend/rpc.h"
#include "mn/store/exec.h"

struct mn_reads;

/* run() runs a request again. Returns false: its snapshot is still unwritten. */
typedef bool mn_read_again(lend_request request, const struct lend_buf *bytes, void *arg);
/* NULL: no memory. */
struct mn_reads *mn_reads_open(struct lend_ep *ep, const struct lend_store *store);
/* Lets a request wait for the snapshot in out. Takes bytes. Returns false: there is no place. */
bool mn_reads_add(struct mn_reads *reads, lend_request request, struct lend_buf *bytes,
		  const struct lend_store_out *out);
/* Runs the requests with snapshots that are no longer unwritten; all: every request, which then
 * ends.
 */
void mn_reads_turn(struct mn_reads *reads, mn_read_again *run, void *arg, bool all);
/* Returns whether a turn is due. */
bool mn_reads_due(const struct mn_reads *reads);
/* Frees the requests. Call it after lend_close(). */
void mn_reads_close(struct mn_reads *reads);

#endif
