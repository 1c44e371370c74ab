#include "mn/unwritten_reads.h"

#include <stdlib.h>
#include <sys/queue.h>

#include "util/bits.h"

enum { READS_MAX = 1024 };
#define LOOK_NS UINT64_C(100000000)   /* between looks at cancelled requests */
#define WAIT_NS UINT64_C(30000000000) /* of a request without a deadline */

struct read {
	TAILQ_ENTRY(read) link;
	lend_request request;
	lend_session session;
	struct lend_buf *bytes;
	lend_ns until; /* its deadline */
	uint32_t slot; /* of its snapshot */
	uint64_t serial;
};
struct mn_reads {
	struct lend_ep *ep;
	const struct lend_store *store;
	struct lend_alarm alarm; /* the next deadline, or look */
	TAILQ_HEAD(, read) all;  /* in order of arrival */
	uint32_t n;
	uint32_t settled; /* lend_store_settled() at the last turn */
};

static void drop_read(struct mn_reads *reads, struct read *read)
{
	TAILQ_REMOVE(&reads->all, read, link);
	reads->n--;
	lend_buf_give(reads->ep, read->bytes);
	free(read);
}

static void watch_read(struct mn_reads *reads, const struct read *read)
{
	lend_ns at = lend_min_u64(read->until, lend_now(reads->ep) + LOOK_NS);

	if (at < reads->alarm.at)
		lend_alarm_set(reads->ep, &reads->alarm, at);
}

/* Drops the requests that are not waited for any more. */
static void drop_late(struct lend_alarm *alarm)
{
	struct mn_reads *reads =
	    (struct mn_reads *)((char *)alarm - offsetof(struct mn_reads, alarm));
	struct read *read = TAILQ_FIRST(&reads->all), *next;

	for (; read; read = next) {
		next = TAILQ_NEXT(read, link);
		if (lend_now(reads->ep) < read->until &&
		    !lend_request_cancelled(reads->ep, read->request)) {
			watch_read(reads, read);
			continue;
		}
		(void)lend_reply(reads->ep, read->request, LEND_DEADLINE_EXCEEDED, NULL);
		drop_read(reads, read);
	}
}

struct mn_reads *mn_reads_open(struct lend_ep *ep, const struct lend_store *store)
{
	struct mn_reads *reads = calloc(1, sizeof(*reads));

	if (!reads)
		return NULL;
	reads->ep = ep;
	reads->store = store;
	reads->alarm = (struct lend_alarm){.ring = drop_late, .at = LEND_NEVER};
	TAILQ_INIT(&reads->all);
	return reads;
}

/* Returns whether a session may have another place. It always may while half of them are free. */
static bool may_wait(const struct mn_reads *reads, lend_session session)
{
	uint32_t own = 0;
	const struct read *read;

	if (reads->n < READS_MAX / 2)
		return true;
	TAILQ_FOREACH(read, &reads->all, link)
	own += read->session.id == session.id;
	return own < READS_MAX - reads->n;
}

bool mn_reads_add(struct mn_reads *reads, lend_request request, struct lend_buf *bytes,
		  const struct lend_store_out *out)
{
	lend_session session = lend_request_session(reads->ep, request);
	struct read *read = may_wait(reads, session) ? malloc(sizeof(*read)) : NULL;

	if (!read) {
		lend_buf_give(reads->ep, bytes);
		return false;
	}
	*read = (struct read){.request = request,
			      .session = session,
			      .bytes = bytes,
			      .until = lend_now(reads->ep) +
				       lend_min_u64(lend_request_left(reads->ep, request), WAIT_NS),
			      .slot = out->awaits_slot,
			      .serial = out->awaits_serial};
	if (!reads->n++)
		reads->settled = lend_store_settled(reads->store);
	TAILQ_INSERT_TAIL(&reads->all, read, link);
	watch_read(reads, read);
	return true;
}

bool mn_reads_due(const struct mn_reads *reads)
{
	return reads->n && reads->settled != lend_store_settled(reads->store);
}

void mn_reads_turn(struct mn_reads *reads, mn_read_again *run, void *arg, bool all)
{
	struct read *read = TAILQ_FIRST(&reads->all), *next;

	if (!all && !mn_reads_due(reads))
		return;
	reads->settled = lend_store_settled(reads->store);
	for (; read; read = next) {
		next = TAILQ_NEXT(read, link);
		if (!all && lend_store_awaits(reads->store, read->slot, read->serial))
			continue;
		if (run(read->request, read->bytes, arg))
			drop_read(reads, read);
	}
}

void mn_reads_close(struct mn_reads *reads)
{
	struct read *read;

	while (reads && (read = TAILQ_FIRST(&reads->all))) {
		TAILQ_REMOVE(&reads->all, read, link);
		free(read);
	}
	free(reads);
}
