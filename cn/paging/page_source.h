/* page_source - the pager's sessions to memory nodes, one per address, and the READs on them.
 *
 * A session lives as long as the pager's thread. It joins the process's life at the node (HELLO)
 * before its first READ; READs that start earlier wait in a queue until it has joined.
 * Layer: cn. Threads: the pager's. */
#ifndef LEND_CN_PAGING_PAGE_SOURCE_H
#define LEND_CN_PAGING_PAGE_SOURCE_H

#include "cn/client.h"

struct cn_source;

/* One READ, in the caller's memory; zero at first, except done and bytes. */
struct cn_page_read {
	char *bytes; /* where the reply's bytes are stored */
	/* Called inside a turn, once for each READ that was sent. len: bytes received. */
	void (*done)(struct cn_page_read *ask, enum lend_status status, uint64_t len);
	uint8_t priority; /* priority of its call */
	bool lent;        /* a carrier may still write to bytes */
	struct cn_source *source;
	uint64_t session;
	TAILQ_ENTRY(cn_page_read) link; /* queue of READs until the session has joined the life */
	struct lend_memop say;
	lend_ns timeout;
	struct lend_call call;
};

void cn_page_read_open(struct lend_ep *ep);
void cn_page_read_close(void); /* call it after the endpoint was closed */
/* Opens the carrier of a session to an address: 0 or -errno with lend_why() set. */
int cn_page_read_connect(const char *home);
/* Starts a READ. Returns false if it cannot be sent; then done does not run. Must not be called
 * while ask->lent is set. */
bool cn_page_read_start(struct cn_page_read *ask, const char *home, const struct lend_memop *say,
			lend_ns timeout);
/* Number of READs under way. */
uint32_t cn_page_reads_in_flight(void);

#endif
