/* output - records of the datagrams of the last output, and of control datagrams to be built.
 * Layer: core (pure), private to it. */
#ifndef LEND_CORE_OUTPUT_H
#define LEND_CORE_OUTPUT_H

#include "wire/pkt.h"

enum { LEND_HEAD_BYTES = 224 }; /* bytes for all blocks before the payload */

/* A control datagram to be made at output. */
struct lend_ctl {
	uint32_t sess; /* LEND_NONE: a RESET, BYE_ACK or RETRY, which the fields below describe */
	uint32_t peer;
	uint64_t id;
	uint32_t call; /* the call's wire number; RETRY: its wait in ms */
	uint8_t kind;
	uint8_t flags;
	uint8_t probed;         /* RETRY: its reason; REPLY: enum ran */
	uint8_t zero;           /* no byte of the arena may be padding: it is compared and hashed */
	uint64_t connect, name; /* RETRY: the attempt and the address */
};
_Static_assert(sizeof(struct lend_ctl) == 40, "no padding");

/* The head of a datagram, which the carrier reads. */
union lend_head {
	uint8_t bytes[LEND_HEAD_BYTES];
	uint32_t first; /* magic, version, kind, class and flags */
	struct {
		struct lend_pkt pkt;
		union {
			struct lend_pkt_request request;
			struct lend_pkt_reply reply;
		};
	};
};

/* State of out[i] of the last output(): its bytes, and what is needed to undo it when the carrier
 * refuses it. */
struct lend_out_rec {
	_Alignas(64) union lend_head head;
	struct lend_pkt_connect_end end; /* end of a CONNECT: its tail */
	struct lend_ctl ctl;             /* the control datagram; kind 0: none */
	uint32_t call;
	uint8_t first; /* the first datagram of its call */
	uint8_t acks;  /* carries a report that was due */
	uint8_t news;  /* the carrier's acceptance must be noted: the carrier was full before, or it
			  is a BYE */
	uint8_t zero;
};
_Static_assert(sizeof(struct lend_out_rec) == 320, "lines");

#endif
