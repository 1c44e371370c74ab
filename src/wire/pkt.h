/* pkt - the wire format of a datagram: common header, one block per kind, the trailer.
 *
 * Little-endian throughout. lend_pkt_decode() is the entry: it checks the length first, then every
 * field that can be checked without the session, and never reads past the datagram. Most datagrams
 * carry a whole message; lend_pkt_decode_short() recognises these at a lower cost. The byte table
 * is in src/core/PROTOCOL.md.
 *
 * Layer: wire (pure). No state. */
#ifndef LEND_WIRE_PKT_H
#define LEND_WIRE_PKT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "util/bits.h"
#include "util/dgram.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "wire structs are copied as they are");

#define LEND_PKT_MAGIC   0x4cu
#define LEND_PKT_VERSION 2u

#define LEND_CALL_SLOT_BITS 10u
#define LEND_CALLS_MAX      (1u << LEND_CALL_SLOT_BITS)
#define LEND_CALL_SEQ_MASK  0x3fffffu
#define LEND_MESSAGE_MAX    (UINT64_C(1) << 30) /* bytes in one message */

enum lend_pkt_kind {
	LEND_PKT_CONNECT = 1, /* session 0; with a call number: a 0-RTT request follows */
	LEND_PKT_ACCEPT,      /* shorter than the CONNECT */
	LEND_PKT_RESET,       /* echoes the session id that is unknown here */
	LEND_PKT_BYE,
	LEND_PKT_BYE_ACK,
	LEND_PKT_PING, /* answered by an ACK of no call, or by RUNNING */
	LEND_PKT_REQUEST,
	LEND_PKT_REPLY,
	LEND_PKT_ACK,     /* how much of a message arrived, and how much more may be sent */
	LEND_PKT_PROBE,   /* an ACK of the reply; requests an ACK of the request */
	LEND_PKT_CANCEL,  /* the caller no longer waits */
	LEND_PKT_GONE,    /* the slot may be used again */
	LEND_PKT_CALLS,   /* requests and replies of one session, a frame each */
	LEND_PKT_RETRY,   /* answers a CONNECT without keeping state: enum lend_pkt_retry_reason */
	LEND_PKT_PROOF,   /* the client's first datagram under LEND_PATTERN_PROOF */
	LEND_PKT_RUNNING, /* the peer's calls that run here; answers a PING with LEND_PKT_ASKS */
	LEND_PKT_KINDS,
	LEND_PKT_DRAIN = 32, /* reserved, like streams: dropped and counted today */
};

enum { /* the upper five bits of the byte; the class is the lower three */
       LEND_PKT_CLASS = 0x07,
       LEND_PKT_SERVED = 0x08,    /* the receiver made the call: the sender serves it */
       LEND_PKT_ACKED = 0x10,     /* a seen block precedes the payload */
       LEND_PKT_WITH_HEAD = 0x20, /* the message of this datagram begins with a head: wire/head.h */
       LEND_PKT_FINE = 0x40,      /* the message is cut into shorter datagrams: lend_frag_unit() */
       LEND_PKT_ENCRYPTED = 0x80,
       LEND_PKT_RESERVED = LEND_PKT_ENCRYPTED,
};

struct lend_pkt {
	uint8_t magic, version;
	uint8_t kind;
	uint8_t flags;    /* class and LEND_PKT_* */
	uint32_t call;    /* slot in the low 10 bits, sequence above */
	uint64_t session; /* the receiver's id */
	uint64_t number;  /* per session and direction; never used twice */
	uint32_t offset;  /* the payload's in the message; of an ACK: enum lend_pkt_state */
	uint32_t length;  /* length of the whole message; of an ACK: enum lend_pkt_ack_flags; of a
			     PING: 0 or LEND_PKT_ASKS */
};
_Static_assert(sizeof(struct lend_pkt) == 32, "wire");

/* How a session is authenticated. From NN on it is sealed: CONNECT and ACCEPT are messages of a
 * Noise handshake, and all later datagrams are encrypted. */
enum lend_pkt_pattern {
	LEND_PATTERN_OPEN,
	LEND_PATTERN_PROOF,
	LEND_PATTERN_NN,     /* Noise_NNpsk0 */
	LEND_PATTERN_NK,     /* Noise_NKpsk2: the client knows the server's public key */
	LEND_PATTERN_RESUME, /* by a ticket of an earlier session */
	LEND_PATTERNS
};

/* The sender's parameters, in CONNECT and ACCEPT. */
struct lend_pkt_params {
	uint8_t incarnation[16]; /* identity of the sender's process towards this peer */
	uint32_t payload;     /* payload bytes that fit into a datagram of the sender's carrier */
	uint32_t unscheduled; /* bytes that may be sent before any grant */
	uint32_t message_max; /* longest message that the sender accepts */
	uint32_t first; /* bytes of a message of several datagrams that may be sent before a grant;
			   0: as in unscheduled */
	uint32_t calls; /* calls in flight per direction; the smaller value of both ends applies */
	uint32_t zero;
};
_Static_assert(sizeof(struct lend_pkt_params) == 40, "wire");

/* Proves an address for a short time: sent with RETRY, returned in CONNECT. */
struct lend_pkt_cookie {
	uint64_t time; /* when the server made it, by the server's clock; 0: no cookie */
	uint8_t mac[16];
};
_Static_assert(sizeof(struct lend_pkt_cookie) == 24, "wire");

/* Admits a 0-RTT call: sent with ACCEPT, returned in a later CONNECT. */
struct lend_pkt_ticket {
	uint64_t until;  /* expiry time by the clock of the issuing server; 0: no ticket */
	uint64_t key_id; /* of the session that it was sent in; 0: an open one */
	uint64_t random;
	uint8_t mac[16]; /* made with a key that only that server has */
};
_Static_assert(sizeof(struct lend_pkt_ticket) == 40, "wire");

struct lend_pkt_connect {
	uint64_t connect; /* the client's number for this attempt */
	uint64_t session; /* the client's id, for datagrams to it */
	uint8_t pattern;  /* enum lend_pkt_pattern */
	uint8_t suite, level,
	    least; /* sealed: of the session; the least level that the client takes */
	uint32_t features;
	uint64_t key_id; /* of the key that the client has; LEND_PATTERN_OPEN: 0 */
	uint8_t e[32];   /* LEND_PATTERN_PROOF: random; sealed: the client's public key */
	struct lend_pkt_cookie cookie;
	struct lend_pkt_ticket ticket;
	struct lend_pkt_params params;
};
_Static_assert(sizeof(struct lend_pkt_connect) == 168, "wire");

/* The end of a CONNECT, behind its 0-RTT request if it has one. Zero in sessions that are not
 * sealed. tag: of all from the parameters on; mac1: of all before it. */
struct lend_pkt_connect_end {
	uint8_t tag[16], mac1[16];
};
_Static_assert(sizeof(struct lend_pkt_connect_end) == 32, "wire");

struct lend_pkt_accept {
	uint64_t connect; /* echoed */
	uint64_t session; /* the server's id */
	uint8_t pattern;  /* as in CONNECT, or LEND_PATTERN_OPEN: the key is unknown here */
	uint8_t suite, level;
	uint8_t zero_rtt; /* enum lend_pkt_zero_rtt */
	uint32_t features;
	uint64_t zero;
	uint8_t e[32]; /* as in CONNECT */
	struct lend_pkt_params params;
	struct lend_pkt_ticket ticket;
	uint8_t ticket_secret[32]; /* zero in sessions that are not sealed */
	uint8_t tag[16]; /* LEND_PATTERN_PROOF: the server's proof; sealed: of the fields from
			    params on */
};
_Static_assert(sizeof(struct lend_pkt_accept) == 192, "wire");

/* Fate of the 0-RTT call of a CONNECT. */
enum lend_pkt_zero_rtt {
	LEND_PKT_NO_ZERO_RTT,   /* the CONNECT bore no ticket */
	LEND_PKT_ZERO_RTT,      /* whether the 0-RTT call ran is not known */
	LEND_PKT_ZERO_RTT_NOT,  /* the call did not run and never will */
	LEND_PKT_ZERO_RTT_RUNS, /* the call runs, in this session */
};

enum lend_pkt_retry_reason {
	LEND_RETRY_COOKIE = 1, /* send CONNECT again, with this cookie */
	LEND_RETRY_FULL,       /* no session is free */
	LEND_RETRY_LEVEL,      /* the server takes no such level or suite, see suites */
};

struct lend_pkt_retry {
	uint64_t connect; /* echoed */
	uint8_t reason;   /* enum lend_pkt_retry_reason */
	uint8_t suites;   /* LEND_RETRY_LEVEL: bit s: the server has suite s; 0: none */
	uint16_t zero;
	uint32_t wait_ms; /* time to wait before the next CONNECT */
	struct lend_pkt_cookie cookie;
};
_Static_assert(sizeof(struct lend_pkt_retry) == 40, "wire");

struct lend_pkt_proof {
	uint8_t proof[16]; /* MAC of the client over both handshake datagrams */
};
_Static_assert(sizeof(struct lend_pkt_proof) == 16, "wire");

struct lend_pkt_request {
	uint32_t method;
	uint32_t left_us; /* UINT32_MAX: no deadline */
	uint32_t grant;   /* bytes of reply that may be sent without a grant */
};
_Static_assert(sizeof(struct lend_pkt_request) == 12, "wire");

enum { LEND_RAN_BITS = 2 };
struct lend_pkt_reply {
	uint8_t status;
	uint8_t ran;         /* LEND_RAN_BITS of it; above: hops of the message beyond the server */
	uint8_t patience_ms; /* ms for which a reply of one datagram need not be acknowledged; 0:
				acknowledge after one idle timeout; LEND_PATIENCE_KEPT */
	uint8_t window; /* requests of one datagram that may be in flight in this session, as coded
			   by core/request_window.h; 0: no limit */
	uint32_t delay_ns; /* time from the arrival of datagram `acked` to this reply; UINT32_MAX:
			      do not use */
	uint64_t acked;    /* number of the datagram that completed the request */
};
_Static_assert(sizeof(struct lend_pkt_reply) == 16, "wire");
/* A patience: the server keeps this reply in its slot, and nothing waits for an acknowledgement. */
enum { LEND_PATIENCE_KEPT = 255 };

/* Bits of a datagram's number. The bits above them in `acked` are a distance d. With d = 0, bit i
 * of the map stands for number acked - 1 - i; otherwise for number acked - d - i. */
enum { LEND_PKT_NUMBER_BITS = 48 };

struct lend_pkt_seen {
	uint64_t acked; /* largest number seen, and a distance */
	uint64_t map;
	uint32_t delay_ns; /* since acked arrived; UINT32_MAX: do not use */
	uint32_t ecn;      /* datagrams received with an ECN mark, in total */
};
_Static_assert(sizeof(struct lend_pkt_seen) == 24, "wire");

struct lend_pkt_ack {     /* in ACK and PROBE; the seen block always follows it */
	uint32_t low;     /* all bytes below this offset have arrived */
	uint32_t granted; /* bytes of the message that may be sent */
};
_Static_assert(sizeof(struct lend_pkt_ack) == 8, "wire");

/* A PING with this length asks for RUNNING. */
enum { LEND_PKT_ASKS = 1 };

struct lend_pkt_running {                    /* the seen block always follows it */
	uint64_t slots[LEND_CALLS_MAX / 64]; /* bit by slot: the handler of its call runs */
};
_Static_assert(sizeof(struct lend_pkt_running) == 128, "wire");

/* A request or reply in a CALLS datagram, as long as its payload. The payload follows, then zeros
 * up to a multiple of LEND_PKT_FRAME_ALIGN bytes. */
struct lend_pkt_frame {
	union {
		struct {
			uint32_t call;
			uint16_t length; /* bytes of payload */
			uint8_t flags;   /* class; LEND_PKT_SERVED: a reply, else a request */
			uint8_t zero;
		};
		uint64_t first; /* all of them */
	};
	union {
		struct {
			struct lend_pkt_request request;
			uint32_t request_end; /* zero */
		};
		struct lend_pkt_reply reply;
		uint64_t block[2];
	};
};
_Static_assert(sizeof(struct lend_pkt_frame) == 24, "wire");
enum {
	LEND_PKT_FRAME_ALIGN = 8,
	LEND_PKT_FRAMES_MAX = 64, /* in one datagram */
};

enum lend_pkt_state { LEND_PKT_UNSEEN, LEND_PKT_PARTIAL, LEND_PKT_WHOLE };
enum lend_pkt_ack_flags {
	LEND_PKT_DROPPED = 1, /* no memory: data from low on was dropped, retransmit it */
	LEND_PKT_PROBED = 2,  /* answers a PROBE: data sent before it and not seen is lost */
	LEND_PKT_WAIT = 4,    /* no memory for the message: send nothing before the next report */
};

/* The end of a datagram of a session without keys, on a carrier that does not detect
 * corruption; seal/record.h adds and removes it. A sealed datagram has a tag there. */
struct lend_pkt_trailer {
	uint32_t crc; /* CRC32C of all before it */
	uint8_t zero[12];
};
_Static_assert(sizeof(struct lend_pkt_trailer) == 16, "wire");

/* Bytes that a datagram with payload can need in addition to the payload, without a trailer. */
#define LEND_PKT_OVERHEAD                                                                          \
	(sizeof(struct lend_pkt) + sizeof(struct lend_pkt_reply) + sizeof(struct lend_pkt_seen))
/* Bytes that a 0-RTT request can need in addition to its own. */
#define LEND_PKT_ZERO_RTT_OVERHEAD                                                                 \
	(sizeof(struct lend_pkt) + sizeof(struct lend_pkt_connect) +                               \
	 sizeof(struct lend_pkt_request) + sizeof(struct lend_pkt_connect_end))
#define LEND_PKT_MTU_MIN 240u /* without a trailer */

/* A decoded datagram. */
struct lend_pkt_view {
	struct lend_pkt head;
	union {
		struct {
			struct lend_pkt_connect connect;
			struct lend_pkt_request zero_rtt_call; /* CONNECT with a call number */
			struct lend_pkt_connect_end end;
		};
		struct lend_pkt_accept accept;
		struct lend_pkt_retry retry;
		struct lend_pkt_proof proof;
		struct lend_pkt_request request;
		struct lend_pkt_reply reply;
		struct lend_pkt_ack ack;
		struct lend_pkt_running running;
	};
	struct lend_pkt_seen seen; /* valid if lend_pkt_reports() */
	union {
		const uint8_t *payload; /* within the datagram */
		const struct lend_part *part;
	};
	uint32_t payload_len;
	uint32_t parts; /* 0: the payload is contiguous; else the number of entries of part[] */
};

enum lend_pkt_fault {
	LEND_PKT_OK,
	LEND_PKT_SHORT,
	LEND_PKT_FOREIGN, /* magic or version */
	LEND_PKT_KIND,
	LEND_PKT_LENGTH, /* offset and length contradict the payload */
};

/* Decodes a datagram of len bytes, without a trailer. */
enum lend_pkt_fault lend_pkt_decode(struct lend_pkt_view *view, const void *data, uint32_t len);
/* Decodes a datagram whose payload is apart from its head. */
enum lend_pkt_fault lend_pkt_decode_apart(struct lend_pkt_view *view, const struct lend_in *in);

/* Returns the first four bytes of a datagram. */
static inline uint32_t lend_pkt_first(uint32_t kind, uint32_t flags)
{
	return LEND_PKT_MAGIC | LEND_PKT_VERSION << 8 | kind << 16 | flags << 24;
}

/* Returns whether the trailer after len bytes matches them. */
bool lend_pkt_whole(const void *data, uint32_t len);

/* Returns the session that a datagram names, which is at least as long as a head. */
static inline uint64_t lend_pkt_session(const void *data)
{
	uint64_t id;

	memcpy(&id, (const uint8_t *)data + offsetof(struct lend_pkt, session), sizeof(id));
	return id;
}

/* decode_short() rejects shorter datagrams. */
#define LEND_PKT_WHOLE_MIN (sizeof(struct lend_pkt) + sizeof(struct lend_pkt_reply))
/* Decodes a datagram that carries a whole request or reply, or several: the common case. False: it
 * is another datagram or not valid; view is then undefined. */
static inline bool lend_pkt_decode_short(struct lend_pkt_view *view, const void *data, uint32_t len)
{
	const uint8_t *at = data;
	uint32_t need = sizeof(view->head) + sizeof(view->reply), first;

	if (len < need)
		return false;
	memcpy(&view->head, at, sizeof(view->head));
	memcpy(&view->reply, at + sizeof(view->head),
	       sizeof(view->reply));                /* a request's block is shorter */
	memcpy(&first, &view->head, sizeof(first)); /* `at` may change: it is read once */
	first &= ~((uint32_t)(LEND_PKT_CLASS | LEND_PKT_SERVED | LEND_PKT_ACKED) << 24);
	if (first == lend_pkt_first(LEND_PKT_REQUEST, 0))
		need = sizeof(view->head) + sizeof(view->request);
	else if (first == lend_pkt_first(LEND_PKT_CALLS, 0)) {
		need = sizeof(view->head);
		view->head.offset |= view->head.call; /* both must be 0 */
	} else if (first != lend_pkt_first(LEND_PKT_REPLY, 0))
		return false;
	if (view->head.flags & LEND_PKT_ACKED) {
		if (len < need + sizeof(view->seen))
			return false;
		memcpy(&view->seen, at + need, sizeof(view->seen));
		need += sizeof(view->seen);
	}
	view->payload = at + need;
	view->payload_len = len - need;
	view->parts = 0;
	return view->head.offset == 0 && view->head.length == view->payload_len;
}

/* Returns the bytes of the block that follows the common header for this kind; for a CONNECT
 * without request and end. */
size_t lend_pkt_block_len(uint8_t kind);

/* Returns whether the datagram contains a seen block. */
static inline bool lend_pkt_reports(const struct lend_pkt *head)
{
	return head->flags & LEND_PKT_ACKED || head->kind == LEND_PKT_ACK ||
	       head->kind == LEND_PKT_PROBE || head->kind == LEND_PKT_RUNNING;
}

/* Returns the bytes of a frame with a payload of this length. */
static inline uint32_t lend_pkt_frame_len(uint32_t length)
{
	return (uint32_t)sizeof(struct lend_pkt_frame) +
	       ((length + LEND_PKT_FRAME_ALIGN - 1) & ~(LEND_PKT_FRAME_ALIGN - 1u));
}

/* Copies the frame at `at`, of which len bytes are left in its CALLS datagram. Returns its payload;
 * NULL: the frame is not valid. */
static inline const uint8_t *lend_pkt_read_frame(struct lend_pkt_frame *f, const uint8_t *at,
						 size_t len)
{
	if (len < sizeof(*f))
		return NULL;
	memcpy(f, at, sizeof(*f));
	LEND_ONCE(*f);
	/* No flag but class and direction, and the byte behind is 0. */
	if (lend_load_u16(&f->flags) & (uint16_t) ~(LEND_PKT_CLASS | LEND_PKT_SERVED) ||
	    lend_pkt_frame_len(f->length) > len ||
	    (!(f->flags & LEND_PKT_SERVED) && f->request_end))
		return NULL;
	return at + sizeof(*f);
}

/* Fills a view as if the frame and its payload were a datagram of their own: call, flags, length,
 * block and payload. */
static inline void lend_pkt_view_frame(struct lend_pkt_view *view, const struct lend_pkt_frame *f,
				       const uint8_t *payload)
{
	view->head.call = f->call;
	view->head.flags = f->flags;
	view->head.length = f->length;
	view->reply = f->reply;
	view->payload = payload;
	view->payload_len = f->length;
}

/* Decodes the frame at *at of the payload of a CALLS datagram into a view. Advances *at. False: the
 * frame is not valid. */
static inline bool lend_pkt_decode_frame(struct lend_pkt_view *view, const uint8_t *frames,
					 uint32_t len, uint32_t *at)
{
	struct lend_pkt_frame f;
	const uint8_t *payload = lend_pkt_read_frame(&f, frames + *at, len - *at);

	if (!payload)
		return false;
	lend_pkt_view_frame(view, &f, payload);
	*at += lend_pkt_frame_len(f.length);
	return true;
}

static inline uint32_t lend_pkt_slot(uint32_t call)
{
	return call & (LEND_CALLS_MAX - 1);
}

static inline uint32_t lend_pkt_seq(uint32_t call)
{
	return call >> LEND_CALL_SLOT_BITS;
}

static inline uint32_t lend_pkt_call(uint32_t slot, uint32_t seq)
{
	return (seq & LEND_CALL_SEQ_MASK) << LEND_CALL_SLOT_BITS | slot;
}

#endif
