#include "wire/pkt.h"

#include <string.h>

#include "util/bits.h"
#include "util/crc32c.h"

static const uint8_t block_len[LEND_PKT_KINDS] = {
    [LEND_PKT_CONNECT] = sizeof(struct lend_pkt_connect),
    [LEND_PKT_ACCEPT] = sizeof(struct lend_pkt_accept),
    [LEND_PKT_REQUEST] = sizeof(struct lend_pkt_request),
    [LEND_PKT_REPLY] = sizeof(struct lend_pkt_reply),
    [LEND_PKT_ACK] = sizeof(struct lend_pkt_ack),
    [LEND_PKT_PROBE] = sizeof(struct lend_pkt_ack),
    [LEND_PKT_RETRY] = sizeof(struct lend_pkt_retry),
    [LEND_PKT_PROOF] = sizeof(struct lend_pkt_proof),
    [LEND_PKT_RUNNING] = sizeof(struct lend_pkt_running),
};

size_t lend_pkt_block_len(uint8_t kind)
{
	return block_len[kind];
}

static bool has_zero_rtt_call(const struct lend_pkt *head)
{
	return head->kind == LEND_PKT_CONNECT && head->call != 0;
}

/* Returns the bytes between the common header and a seen block, or the payload. */
static uint32_t blocks_len(const struct lend_pkt *head)
{
	return block_len[head->kind] +
	       (has_zero_rtt_call(head) ? (uint32_t)sizeof(struct lend_pkt_request) : 0);
}

/* Returns the bytes that follow the payload. */
static uint32_t end_len(const struct lend_pkt *head)
{
	return head->kind == LEND_PKT_CONNECT ? (uint32_t)sizeof(struct lend_pkt_connect_end) : 0;
}

static bool carries_message(uint8_t kind)
{
	return kind == LEND_PKT_REQUEST || kind == LEND_PKT_REPLY;
}

bool lend_pkt_whole(const void *data, uint32_t len)
{
	struct lend_pkt_trailer trailer;

	memcpy(&trailer, (const uint8_t *)data + len, sizeof(trailer));
	return trailer.crc == lend_crc32c(0, data, len);
}

/* Checks that the payload is inside its message; only an empty message has an empty payload. */
static bool lengths_agree(const struct lend_pkt_view *v)
{
	if (has_zero_rtt_call(&v->head))
		return v->payload_len == v->head.length;
	if (v->head.kind == LEND_PKT_CALLS)
		return v->payload_len == v->head.length && v->head.offset == 0 && v->head.call == 0;
	if (!carries_message(v->head.kind))
		return v->payload_len == 0;
	if (v->head.length > LEND_MESSAGE_MAX || v->head.offset > v->head.length ||
	    v->payload_len > v->head.length - v->head.offset)
		return false;
	return v->payload_len > 0 || v->head.length == 0;
}

/* Copies the kind's block. The lengths are constants, so each copy is a few moves. */
static void copy_block(struct lend_pkt_view *v, const uint8_t *at)
{
	switch (v->head.kind) {
	case LEND_PKT_REQUEST:
		memcpy(&v->request, at, sizeof(v->request));
		return;
	case LEND_PKT_REPLY:
		memcpy(&v->reply, at, sizeof(v->reply));
		return;
	default:
		memcpy(&v->connect, at, blocks_len(&v->head));
	}
}

/* Decodes everything except the check that payload and message lengths agree. */
static enum lend_pkt_fault take_apart(struct lend_pkt_view *v, const void *data, uint32_t len)
{
	const uint8_t *at = data;
	uint32_t need = sizeof(v->head);
	bool reports;

	if (len < need)
		return LEND_PKT_SHORT;
	memcpy(&v->head, at, sizeof(v->head));
	LEND_ONCE(v->head);
	if (v->head.magic != LEND_PKT_MAGIC || v->head.version != LEND_PKT_VERSION)
		return LEND_PKT_FOREIGN;
	if (v->head.kind == 0 || v->head.kind >= LEND_PKT_KINDS ||
	    v->head.flags & LEND_PKT_RESERVED ||
	    (v->head.flags & (LEND_PKT_WITH_HEAD | LEND_PKT_FINE) &&
	     !carries_message(v->head.kind)))
		return LEND_PKT_KIND;
	reports = lend_pkt_reports(&v->head);
	need += blocks_len(&v->head) + (reports ? sizeof(v->seen) : 0);
	if (len < need + end_len(&v->head))
		return LEND_PKT_SHORT;
	copy_block(v, at + sizeof(v->head));
	if (reports)
		memcpy(&v->seen, at + need - sizeof(v->seen), sizeof(v->seen));
	v->parts = 0;
	v->payload = at + need;
	v->payload_len = len - need - end_len(&v->head);
	if (v->head.kind == LEND_PKT_CONNECT)
		memcpy(&v->end, v->payload + v->payload_len, sizeof(v->end));
	return LEND_PKT_OK;
}

static enum lend_pkt_fault check_agreed(const struct lend_pkt_view *v, enum lend_pkt_fault fault)
{
	return fault == LEND_PKT_OK && !lengths_agree(v) ? LEND_PKT_LENGTH : fault;
}

enum lend_pkt_fault lend_pkt_decode(struct lend_pkt_view *v, const void *data, uint32_t len)
{
	return check_agreed(v, take_apart(v, data, len));
}

enum lend_pkt_fault lend_pkt_decode_apart(struct lend_pkt_view *v, const struct lend_in *in)
{
	enum lend_pkt_fault fault = take_apart(v, in->data, in->len);

	if (fault != LEND_PKT_OK)
		return fault;
	if (v->payload_len > 0 || v->head.kind == LEND_PKT_CONNECT ||
	    v->head.kind == LEND_PKT_CALLS)
		return LEND_PKT_LENGTH;
	v->payload = in->body;
	v->payload_len = in->body_len;
	v->parts = in->parts;
	/* A payload in several parts is a whole message. */
	if (v->parts && v->payload_len != v->head.length)
		return LEND_PKT_LENGTH;
	return check_agreed(v, LEND_PKT_OK);
}
