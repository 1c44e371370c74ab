/* header - what a capture writes in front of a peer's datagrams: exported PDU tags and the
 * lead of capture.h.
 *
 * Asking a carrier who a peer is costs more than copying its datagram, so the answer is kept, per
 * index, until the index may mean another peer. Layer: io. Threads: the carrier's.
 */
#ifndef LEND_IO_CAPTURE_HEADER_H
#define LEND_IO_CAPTURE_HEADER_H

#include "io/capture/capture.h"

enum { LEND_CAPTURE_LEAD_MAX = 256, LEND_CAPTURE_LEADS = 64, LEND_CAPTURE_ADDR_MAX = 32 };

struct lend_capture_lead {
	bool known;
	uint32_t peer;
	uint8_t addr_len; /* as the carrier writes it */
	uint8_t addr[LEND_CAPTURE_ADDR_MAX];
	uint32_t at;     /* where the lead of capture.h begins */
	uint32_t len[2]; /* in and out */
	uint8_t bytes[2][LEND_CAPTURE_LEAD_MAX];
};

struct lend_capture_leads {
	char self[104]; /* this carrier's address, or "" */
	uint32_t carrier;
	bool checked;
	struct lend_capture_lead lead[LEND_CAPTURE_LEADS];
};

/* The lead of a peer, of a datagram that came from addr (NULL: one that goes out). who is the
 * carrier's own. Valid until the next call. */
struct lend_capture_lead *lend_capture_leads_of(struct lend_capture_leads *leads,
						struct lend_io *io, const struct lend_io_ops *ops,
						uint32_t peer, const struct lend_in *in);
/* The index may mean another peer from now on. */
void lend_capture_leads_forget(struct lend_capture_leads *leads, uint32_t peer);

#endif
