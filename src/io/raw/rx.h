/* raw/rx - a multi-packet receive queue of an mlx5 device, read from the memory that it shares.
 *
 * The device fills a few large buffers in order, each a row of strides; a frame takes one stride or
 * several in a row, and one completion tells where. Nothing that a device writes takes the reader
 * out of its memory: what does not fit together is RAW_BROKEN, and the queue is to be made anew.
 *
 * Layer: io. Threads: the carrier's. Pure: memory in, frames out. Memory is the device's and the
 * carrier's.
 */
#ifndef LEND_IO_RAW_RX_H
#define LEND_IO_RAW_RX_H

#include <stdbool.h>
#include <stdint.h>

/* Where in a completion (the last 64 bytes of its slot) the device writes what; big endian. */
enum raw_cqe {
	RAW_CQE_LEN = 64,
	RAW_CQE_BUFFER = 2,   /* 2 bytes: index of the buffer */
	RAW_CQE_CHECKS = 28,  /* 1 byte: RAW_CQE_L3_OK, RAW_CQE_L4_OK */
	RAW_CQE_BYTES = 44,   /* 4 bytes: length 16, strides 14, unused 1, filler 1 */
	RAW_CQE_STRIDE = 60,  /* 2 bytes: the frame's first stride */
	RAW_CQE_OP_OWNER = 63 /* opcode 4, format 2, solicited 1, owner 1 */
};
enum { RAW_CQE_L3_OK = 2, RAW_CQE_L4_OK = 4 };
enum raw_opcode { RAW_OP_RECEIVED = 2, RAW_OP_FAILED = 14, RAW_OP_NONE = 15 };

/* One descriptor of a buffer: 16 bytes unused, then length 4, key 4, address 8; big endian. */
enum { RAW_WQE_LEN = 32, RAW_WQE_SEG = 16 };

/* What the device shares; counts are powers of two. */
struct raw_queue {
	uint8_t *cq;              /* completions: cqe_n slots of cqe_len bytes */
	volatile uint32_t *cq_at; /* tells the device how far they are read */
	uint32_t cqe_n, cqe_len;
	uint8_t *wq;              /* descriptors: wqe_n slots of wqe_len bytes */
	volatile uint32_t *wq_at; /* tells the device how many buffers it has */
	uint32_t wqe_n, wqe_len;
	uint32_t key; /* of the buffers' memory */
};

struct raw_rx {
	struct raw_queue q;
	uint8_t *memory; /* wqe_n buffers */
	uint32_t stride_log, strides_log;
	uint32_t next;   /* completion, counted for ever */
	uint32_t buffer; /* that is being filled, counted since the queue was made */
	uint32_t used;   /* strides of it */
};

enum raw_got { RAW_NOTHING, RAW_FRAME, RAW_FILLER, RAW_BROKEN };

struct raw_frame {
	const uint8_t *data;
	uint32_t len;
	bool ip_ok, udp_ok; /* the device summed it up and found it right */
};

static inline uint32_t raw_rx_buffer_len(const struct raw_rx *rx)
{
	return 1u << (rx->stride_log + rx->strides_log);
}

/* Describes every buffer and gives it to the device, whose queue is empty: at first, and after it
 * was made anew. Completions of before are passed over. */
void raw_rx_start(struct raw_rx *rx);
/* The next completion. A frame stays until raw_rx_done(). */
enum raw_got raw_rx_next(struct raw_rx *rx, struct raw_frame *frame);
/* Is there one? */
bool raw_rx_waiting(const struct raw_rx *rx);
/* No frame is read any more: what is empty goes back to the device. */
void raw_rx_done(struct raw_rx *rx);

#endif
