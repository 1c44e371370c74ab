/* fake - an mlx5 device made of plain memory, for the raw carrier: several of them on one wire, in
 * one process.
 *
 * It takes the place of io_raw_mlx5*.c in a module of its own, build/test/raw/lend_io_raw.so. A
 * test finds its switches there as "raw_fake". Devices are mlx5_0 .. mlx5_3, with MACs
 * 02:fa:ce:00:00:00 and so on, above the interface lo.
 */
#ifndef LEND_TEST_IO_RAW_FAKE_H
#define LEND_TEST_IO_RAW_FAKE_H

#include "io/raw/raw.h"

struct raw_fake {
	/* Of devices opened from now on. */
	uint32_t mtu;
	uint8_t stride_log, strides_log; /* 0: as the carrier likes it */
	bool checksums;
	uint32_t cqe_len;  /* 64, or 128 with the completion in the second half */
	uint32_t cqe_less; /* a completion ring that is too short, by so many halvings */
	int refuse_start, refuse_udp, refuse_neighbours; /* -errno */
	/* At any time. */
	enum raw_link link;
	uint32_t drop_every;   /* loses each n-th frame; 0: none */
	uint32_t lag;          /* sends that stay within the device for now */
	uint32_t took_most;    /* posts that it takes at once; 0: all */
	uint32_t signals_more; /* than there were, told once */
	bool send_broken;      /* the send queue stopped; what is posted is lost */
	bool revive_fails;
	uint8_t checks;              /* what completions say of checksums */
	uint8_t mangle[RAW_CQE_LEN]; /* xor'ed into the next completion, then all zero */
	/* What happened. */
	uint32_t opens;   /* devices that are open */
	uint32_t posts;   /* doorbells */
	uint32_t signals; /* sends that wanted one */
	uint32_t revived[2];
	uint32_t overruns;           /* frames without a receive buffer */
	uint32_t run_over;           /* completions without a place: the carrier's fault */
	uint32_t misread;            /* descriptors that make no sense: the carrier's fault */
	uint32_t fillers;            /* buffers that ended early */
	uint8_t last[RAW_FRAME_MAX]; /* frame that was sent */
	uint32_t last_len;
	/* A frame from a stranger, to every queue of every device, whatever its rules. */
	void (*inject)(const uint8_t *bytes, uint32_t len);
	/* Makes room in the devices: what lagged behind is on its way. */
	void (*settle)(void);
};

#endif
