/* raw/rx - see rx.h.
 *
 * A buffer returns to the device when all its strides are used and no frame in it is lent, which is
 * at the end of an event-loop iteration. There are as many completions as strides, so the
 * completion queue cannot overflow.
 */
#include "io/raw/rx.h"

#include <string.h>

#include "io/raw/barrier.h"

enum { LEN_MASK = 0xffff, STRIDES_SHIFT = 16, STRIDES_MASK = 0x3fff };

static uint16_t load_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t load_be32(const uint8_t *p)
{
	return (uint32_t)load_be16(p) << 16 | load_be16(p + 2);
}

static void store_be32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static void write_doorbell(volatile uint32_t *at, uint32_t count)
{
	uint32_t text;

	store_be32((uint8_t *)&text, count);
	raw_to_device();
	*at = text;
}

static const uint8_t *next_completion(const struct raw_rx *rx)
{
	return rx->q.cq + (size_t)(rx->next & (rx->q.cqe_n - 1)) * rx->q.cqe_len + rx->q.cqe_len -
	       RAW_CQE_LEN;
}

/* Owner bits change with each round of the ring, so stale completions are recognised. */
static bool is_ours(const struct raw_rx *rx, uint8_t op_owner)
{
	return op_owner >> 4 != RAW_OP_NONE && (op_owner & 1) == !!(rx->next & rx->q.cqe_n);
}

bool raw_rx_waiting(const struct raw_rx *rx)
{
	return is_ours(rx, *(const volatile uint8_t *)(next_completion(rx) + RAW_CQE_OP_OWNER));
}

static void describe_buffer(const struct raw_rx *rx, uint32_t index)
{
	uint32_t len = raw_rx_buffer_len(rx);
	uint64_t address = (uintptr_t)rx->memory + (uint64_t)index * len;
	uint8_t *wqe = rx->q.wq + (size_t)index * rx->q.wqe_len;

	memset(wqe, 0, rx->q.wqe_len);
	store_be32(wqe + RAW_WQE_SEG, len);
	store_be32(wqe + RAW_WQE_SEG + 4, rx->q.key);
	store_be32(wqe + RAW_WQE_SEG + 8, (uint32_t)(address >> 32));
	store_be32(wqe + RAW_WQE_SEG + 12, (uint32_t)address);
}

void raw_rx_done(struct raw_rx *rx)
{
	write_doorbell(rx->q.cq_at, rx->next & 0xffffff);
	write_doorbell(rx->q.wq_at, (rx->buffer + rx->q.wqe_n) & 0xffff);
}

void raw_rx_start(struct raw_rx *rx)
{
	for (uint32_t i = 0; i < rx->q.cqe_n && raw_rx_waiting(rx); i++)
		rx->next++;
	rx->buffer = rx->used = 0;
	for (uint32_t i = 0; i < rx->q.wqe_n; i++)
		describe_buffer(rx, i);
	raw_rx_done(rx);
}

enum raw_got raw_rx_next(struct raw_rx *rx, struct raw_frame *frame)
{
	const uint8_t *cqe = next_completion(rx);
	uint8_t op_owner = *(const volatile uint8_t *)(cqe + RAW_CQE_OP_OWNER);
	uint32_t bytes, first, strides, all = 1u << rx->strides_log;

	if (!is_ours(rx, op_owner))
		return RAW_NOTHING;
	raw_from_device();
	bytes = load_be32(cqe + RAW_CQE_BYTES);
	first = load_be16(cqe + RAW_CQE_STRIDE);
	strides = bytes >> STRIDES_SHIFT & STRIDES_MASK;
	if (op_owner >> 2 != RAW_OP_RECEIVED << 2) /* failed, compressed, or unknown */
		return RAW_BROKEN;
	if ((load_be16(cqe + RAW_CQE_BUFFER) ^ rx->buffer) & (rx->q.wqe_n - 1))
		return RAW_BROKEN;
	if (strides == 0 || strides > all - rx->used)
		return RAW_BROKEN;
	if (!(bytes >> 31) && (first >= all || strides > all - first ||
			       (bytes & LEN_MASK) > strides << rx->stride_log))
		return RAW_BROKEN;
	frame->data = rx->memory +
		      (size_t)(rx->buffer & (rx->q.wqe_n - 1)) * raw_rx_buffer_len(rx) +
		      ((size_t)first << rx->stride_log);
	frame->len = bytes & LEN_MASK;
	frame->ip_ok = cqe[RAW_CQE_CHECKS] & RAW_CQE_L3_OK;
	frame->udp_ok = cqe[RAW_CQE_CHECKS] & RAW_CQE_L4_OK;
	rx->next++;
	rx->used += strides;
	if (rx->used == all) {
		rx->buffer++;
		rx->used = 0;
	}
	return bytes >> 31 ? RAW_FILLER : RAW_FRAME;
}
