#include "stream/duplex.h"

#include <string.h>

#include "util/bits.h"
#include "util/check.h"

enum { RETRY_NS = 100000, RETRY_DOUBLINGS = 10 }; /* 100 us to 100 ms */
enum { HALF = LEND_STREAM_WINDOW / 2, HALF_BYTES = LEND_STREAM_BYTES / 2 };

_Static_assert(LEND_STREAM_CALLS <= 32, "a bit each");

static uint32_t entry_of(uint64_t message)
{
	return (uint32_t)(message % LEND_STREAM_WINDOW);
}

static uint32_t bit_of(uint32_t call)
{
	return UINT32_C(1) << call;
}

bool lend_note_valid(const struct lend_note *note)
{
	static const uint8_t zero[sizeof(note->zero)];

	return note->kind < LEND_NOTE_KINDS && note->to_opener <= 1 &&
	       memcmp(note->zero, zero, sizeof(zero)) == 0;
}

void lend_duplex_init(struct lend_duplex *d)
{
	memset(d, 0, sizeof(*d));
	d->end = UINT64_MAX;
}

/* The call of an earlier message in this entry may still be under way, although a later reply has
 * shown that the message was taken. */
bool lend_duplex_may_put(const struct lend_duplex *d)
{
	return d->sent - d->taken < LEND_STREAM_WINDOW && d->out_bytes < LEND_STREAM_BYTES &&
	       !((d->ready | d->flying | d->waiting) & bit_of(entry_of(d->sent)));
}

enum lend_put lend_duplex_check(struct lend_duplex *d)
{
	if (d->finished || d->closed || d->broken)
		return LEND_PUT_CLOSED;
	if (lend_duplex_may_put(d))
		return LEND_PUT_TAKEN;
	d->blocked = 1;
	return LEND_PUT_FULL;
}

enum lend_put lend_duplex_put(struct lend_duplex *d, uint32_t len, uint32_t *call)
{
	enum lend_put may = lend_duplex_check(d);

	if (may != LEND_PUT_TAKEN)
		return may;
	*call = entry_of(d->sent);
	d->out[*call].len = len;
	d->out_bytes += len;
	d->ready |= bit_of(*call);
	d->tries[*call] = 0;
	d->sent++;
	return LEND_PUT_TAKEN;
}

void lend_duplex_finish(struct lend_duplex *d, bool by_note)
{
	if (d->finished || d->closed)
		return;
	d->finished = 1;
	if (by_note)
		d->ready |= bit_of(LEND_STREAM_LAST);
}

bool lend_duplex_unblock(struct lend_duplex *d)
{
	if (!d->blocked || d->finished || d->closed || !lend_duplex_may_put(d))
		return false;
	d->blocked = 0;
	return true;
}

/* Makes the calls ready that are due again. */
static void retry_due(struct lend_duplex *d, lend_ns now)
{
	for (uint32_t left = d->waiting; left; left &= left - 1) {
		uint32_t call = (uint32_t)__builtin_ctz(left);

		if (d->due[call] > now)
			continue;
		d->waiting &= ~bit_of(call);
		d->ready |= bit_of(call);
	}
}

/* Returns the number of the message in an entry that is in use. */
static uint64_t number_in(const struct lend_duplex *d, uint32_t entry)
{
	return d->sent - 1 - entry_of(d->sent - 1 - entry);
}

uint32_t lend_duplex_next(struct lend_duplex *d, lend_ns now, struct lend_note *note)
{
	uint32_t call;

	if (d->waiting)
		retry_due(d, now);
	if (!d->ready)
		return LEND_STREAM_CALLS;
	call = (uint32_t)__builtin_ctz(d->ready);
	d->ready &= ~bit_of(call);
	d->flying |= bit_of(call);
	*note = (struct lend_note){.kind = LEND_NOTE_MESSAGE};
	if (call == LEND_STREAM_LAST) {
		note->kind = LEND_NOTE_LAST;
		note->at = d->sent;
	} else if (call == LEND_STREAM_CREDIT) {
		note->kind = LEND_NOTE_CREDIT;
		note->at = lend_duplex_report(d);
	} else {
		note->at = number_in(d, call);
	}
	return call;
}

lend_ns lend_duplex_wake(const struct lend_duplex *d)
{
	lend_ns at = d->ready ? 0 : LEND_NEVER;

	for (uint32_t left = d->waiting; left; left &= left - 1)
		at = lend_min_u64(at, d->due[__builtin_ctz(left)]);
	return at;
}

/* Notes how many messages the reader has taken. Reports may overtake each other. */
static void note_taken(struct lend_duplex *d, uint64_t taken)
{
	for (; d->taken < taken; d->taken++)
		d->out_bytes -= d->out[entry_of(d->taken)].len;
}

/* Calls the sender if it may have used up what it knows of its credit. */
static void offer_credit(struct lend_duplex *d)
{
	if (d->next - d->reported < HALF && d->taken_bytes < HALF_BYTES)
		return;
	if (d->end == UINT64_MAX && !d->closed &&
	    !((d->flying | d->waiting) & bit_of(LEND_STREAM_CREDIT)))
		d->ready |= bit_of(LEND_STREAM_CREDIT);
}

void lend_duplex_call_ended(struct lend_duplex *d, lend_ns now, uint32_t call,
			    enum lend_call_result result, uint64_t taken)
{
	LEND_CHECK(call < LEND_STREAM_CALLS && d->flying & bit_of(call));
	d->flying &= ~bit_of(call);
	if (d->closed)
		return;
	if (result == LEND_CALL_OK && taken <= d->sent) {
		note_taken(d, taken);
		d->tries[call] = 0;
		if (call == LEND_STREAM_CREDIT)
			offer_credit(d);
	} else if (result == LEND_CALL_AGAIN) {
		d->due[call] = now + ((lend_ns)RETRY_NS << d->tries[call]);
		d->tries[call] = (uint8_t)lend_min_u32(d->tries[call] + 1u, RETRY_DOUBLINGS);
		d->waiting |= bit_of(call);
	} else {
		d->broken = 1;
	}
}

bool lend_duplex_all_sent(const struct lend_duplex *d)
{
	uint32_t messages = ~bit_of(LEND_STREAM_CREDIT);

	return !((d->ready | d->flying | d->waiting) & messages);
}

/* Returns whether the sender obeys its credit in bytes: all messages that are not taken but the
 * last one of them are below the limit. */
static bool bytes_obeyed(const struct lend_duplex *d, uint64_t number, uint32_t len)
{
	uint64_t last = d->top > d->next ? d->in[entry_of(d->top - 1)].len : 0;

	if (number >= d->top)
		return d->in_bytes < LEND_STREAM_BYTES;
	return d->in_bytes + len - last < LEND_STREAM_BYTES;
}

static enum lend_arrival message_arrived(struct lend_duplex *d, uint64_t number, uint32_t len,
					 uint32_t *entry)
{
	struct lend_duplex_message *m = &d->in[entry_of(number)];

	if (number < d->next || (number < d->next + LEND_STREAM_WINDOW && m->present))
		return LEND_ARRIVAL_KNOWN;
	if (number >= d->next + LEND_STREAM_WINDOW || number >= d->end ||
	    !bytes_obeyed(d, number, len))
		return LEND_ARRIVAL_FORGED;
	m->present = 1;
	m->len = len;
	d->in_bytes += len;
	d->top = lend_max_u64(d->top, number + 1);
	*entry = entry_of(number);
	return LEND_ARRIVAL_KEEP;
}

enum lend_arrival lend_duplex_arrived(struct lend_duplex *d, const struct lend_note *note,
				      uint32_t len, uint32_t *entry)
{
	if (d->deaf)
		return LEND_ARRIVAL_FORGED;
	switch ((enum lend_note_kind)note->kind) {
	case LEND_NOTE_MESSAGE:
		return message_arrived(d, note->at, len, entry);
	case LEND_NOTE_LAST:
		if (note->at < d->top || note->at > d->next + LEND_STREAM_WINDOW ||
		    (d->end != UINT64_MAX && d->end != note->at))
			return LEND_ARRIVAL_FORGED;
		d->end = note->at;
		return LEND_ARRIVAL_KNOWN;
	case LEND_NOTE_CREDIT:
		if (note->at > d->sent)
			return LEND_ARRIVAL_FORGED;
		note_taken(d, note->at);
		return LEND_ARRIVAL_KNOWN;
	case LEND_NOTE_OPEN:
	case LEND_NOTE_KINDS:
		break;
	}
	return LEND_ARRIVAL_FORGED;
}

uint64_t lend_duplex_report(struct lend_duplex *d)
{
	d->reported = d->next;
	d->taken_bytes = 0;
	return d->next;
}

enum lend_taking lend_duplex_peek(const struct lend_duplex *d)
{
	if (d->deaf)
		return LEND_TAKING_END;
	if (d->next < d->end && d->in[entry_of(d->next)].present)
		return LEND_TAKING_MESSAGE;
	return d->next == d->end ? LEND_TAKING_END : LEND_TAKING_NONE;
}

enum lend_taking lend_duplex_take(struct lend_duplex *d, uint64_t *tag)
{
	enum lend_taking next = lend_duplex_peek(d);
	struct lend_duplex_message *m = &d->in[entry_of(d->next)];

	if (next != LEND_TAKING_MESSAGE)
		return next;
	*tag = m->tag;
	m->present = 0;
	d->in_bytes -= m->len;
	d->taken_bytes += m->len;
	d->next++;
	offer_credit(d);
	return next;
}

void lend_duplex_end(struct lend_duplex *d)
{
	uint64_t end = d->next;

	while (end < d->next + LEND_STREAM_WINDOW && d->in[entry_of(end)].present)
		end++;
	d->end = lend_min_u64(d->end, end);
	lend_duplex_close(d);
}

bool lend_duplex_drop(struct lend_duplex *d, uint64_t *tag)
{
	d->deaf = 1;
	for (uint32_t i = 0; i < LEND_STREAM_WINDOW; i++) {
		if (!d->in[i].present)
			continue;
		d->in[i].present = 0;
		*tag = d->in[i].tag;
		return true;
	}
	return false;
}
