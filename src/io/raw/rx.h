/* raw/rx - a multi-packet receive queue of an mlx5 device, read from the memory that it shares.
 *
 * The device fills a few large buffers in order. Each buffer is a row of strides; a frame takes one
 * or more consecutive strides, and one completion gives their position. Every value that a device
 * writes is checked, so that no read leaves the buffers: inconsistent values are RAW_BROKEN, and
 * the queue must be restarted.
 *
 * Layer: io. Threads: the carrier's. Pure: memory in, frames out. Memory is the device's and the
 * carrier's.
 */
#ifndef LEND_IO_RAW_RX_H
#define LEND_IO_RAW_RX_H

#include <stdbool.h>
#include <stdint.h>

/* Offsets of the fields that the device writes in a completion, the last 64 bytes of its slot; big
 * endian. */
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

/* A buffer's descriptor: 16 bytes unused, then length 4, key 4, address 8; big endian. */
enum { RAW_WQE_LEN = 32, RAW_WQE_SEG = 16 };

/* The queue memory that the device shares; counts are powers of two. */
struct raw_queue {
	uint8_t *cq;              /* completions: cqe_n slots of cqe_len bytes */
	volatile uint32_t *cq_at; /* doorbell: completions read so far */
	uint32_t cqe_n, cqe_len;
	uint8_t *wq;              /* descriptors: wqe_n slots of wqe_len bytes */
	volatile uint32_t *wq_at; /* doorbell: buffers posted so far */
	uint32_t wqe_n, wqe_len;
	uint32_t key; /* memory key of the buffers */
};

struct raw_rx {
	struct raw_queue q;
	uint8_t *memory; /* wqe_n buffers */
	uint32_t stride_log, strides_log;
	uint32_t next;   /* number of the next completion, free-running */
	uint32_t buffer; /* number of the buffer being filled, counted since the queue was made */
	uint32_t used;   /* strides of it in use */
};

enum raw_got { RAW_NOTHING, RAW_FRAME, RAW_FILLER, RAW_BROKEN };

struct raw_frame {
	const uint8_t *data;
	uint32_t len;
	bool ip_ok, udp_ok; /* the device verified the checksum */
};

static inline uint32_t raw_rx_buffer_len(const struct raw_rx *rx)
{
	return 1u << (rx->stride_log + rx->strides_log);
}

/* Writes all descriptors and posts all buffers to the device. Its queue is empty: at first, and
 * after a restart. Skips completions from before the restart. */
void raw_rx_start(struct raw_rx *rx);
/* Reads the next completion. A frame stays valid until raw_rx_done(). */
enum raw_got raw_rx_next(struct raw_rx *rx, struct raw_frame *frame);
/* Returns whether a completion is waiting. */
bool raw_rx_waiting(const struct raw_rx *rx);
/* Ends the use of all frames: returns empty buffers to the device. */
void raw_rx_done(struct raw_rx *rx);

#endif
