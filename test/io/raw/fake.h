/* fake - an mlx5 device made of plain memory, for the raw carrier.
 *
 * Several devices share one wire in one process. It replaces src/io/raw/mlx5*.c in a module of its
 * own, build/test/raw/lend_io_raw.so. A test finds its controls there as "raw_fake". The devices
 * are mlx5_0 .. mlx5_3, with MACs 02:fa:ce:00:00:00 and up, above the interface lo. Layer: test. */
#ifndef LEND_TEST_IO_RAW_FAKE_H
#define LEND_TEST_IO_RAW_FAKE_H

#include "io/raw/raw.h"

struct raw_fake {
	/* For devices that are opened from now on. */
	uint32_t mtu;
	uint8_t stride_log, strides_log; /* log2 of bytes per stride and of strides per buffer; 0:
					    as the carrier asks */
	bool checksums;
	uint32_t cqe_len;  /* 64, or 128 with the completion in the second half */
	uint32_t cqe_less; /* halvings of the completion ring, which makes it too short */
	int refuse_start, refuse_udp, refuse_neighbours; /* -errno */
	/* May change at any time. */
	enum raw_link link;
	uint32_t drop_every;   /* loses each n-th frame; 0: none */
	uint32_t lag;          /* number of sent frames that the device delays */
	uint32_t took_most;    /* posts accepted at once; 0: no limit */
	uint32_t signals_more; /* completed sends to report beyond those posted, once */
	bool send_broken;      /* the send queue stopped; posted frames are lost */
	bool revive_fails;
	uint8_t checks;              /* checksum flags in completions */
	uint8_t mangle[RAW_CQE_LEN]; /* XORed into the next completion, then zeroed */
	/* Counters. */
	uint32_t opens;   /* open devices */
	uint32_t posts;   /* doorbells */
	uint32_t signals; /* sends that requested a completion */
	uint32_t revived[2];
	uint32_t overruns;           /* frames that found no receive buffer */
	uint32_t run_over;           /* completions that found no room: a bug of the carrier */
	uint32_t misread;            /* invalid descriptors: a bug of the carrier */
	uint32_t fillers;            /* buffers that ended early */
	uint8_t last[RAW_FRAME_MAX]; /* the newest frame sent */
	uint32_t last_len;
	/* Delivers a frame of an unknown sender to each queue of each device, whatever its steering
	 * rules. */
	void (*inject)(const uint8_t *bytes, uint32_t len);
	/* Sends the frames that the devices delayed. */
	void (*settle)(void);
};

#endif
