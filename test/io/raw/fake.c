#include "io/raw/fake.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "io/raw/barrier.h"
#include "io/module/module.h"
#include "sys/last_error.h"

enum { PORTS = 64, KEY = 0x5eed, PENDING = RAW_SEND_SLOTS };

struct port {
	struct raw_device device; /* first member */
	struct raw_memory memory;
	uint32_t at[2]; /* the rings' counters, written by the carrier */
	struct raw_flow flow[2];
	uint32_t flows;
	uint32_t done;   /* number of completions written */
	uint32_t buffer; /* buffer that is being filled, never wrapped */
	uint32_t used;   /* its used strides */
	struct raw_send pending[PENDING];
	uint32_t head, tail, signals;
	bool armed, broken;
	uint32_t armed_at;
};

static void inject_frame(const uint8_t *bytes, uint32_t len);
static void settle_ports(void);

LEND_IO_EXPORT struct raw_fake raw_fake;
struct raw_fake raw_fake = {.mtu = 1500,
			    .cqe_len = 64,
			    .checks = RAW_CQE_L3_OK | RAW_CQE_L4_OK,
			    .inject = inject_frame,
			    .settle = settle_ports};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct port *port_at[PORTS];

static uint8_t *next_completion(struct port *p)
{
	const struct raw_queue *q = &p->device.queue;

	return q->cq + (size_t)(p->done & (q->cqe_n - 1)) * q->cqe_len + q->cqe_len - RAW_CQE_LEN;
}

static void complete_receive(struct port *p, uint32_t first, uint32_t bytes)
{
	const struct raw_queue *q = &p->device.queue;
	uint8_t *cqe = next_completion(p), text[RAW_CQE_LEN] = {0};

	if (p->done - be32toh(p->at[0]) >= q->cqe_n)
		raw_fake.run_over++;
	lend_eth_put16(text + RAW_CQE_BUFFER, p->buffer & (q->wqe_n - 1));
	lend_eth_put16(text + RAW_CQE_BYTES, bytes >> 16);
	lend_eth_put16(text + RAW_CQE_BYTES + 2, bytes);
	lend_eth_put16(text + RAW_CQE_STRIDE, first);
	text[RAW_CQE_CHECKS] = raw_fake.checks;
	text[RAW_CQE_OP_OWNER] = (uint8_t)(RAW_OP_RECEIVED << 4 | !!(p->done & q->cqe_n));
	for (uint32_t i = 0; i < RAW_CQE_LEN; i++)
		text[i] ^= raw_fake.mangle[i];
	memset(raw_fake.mangle, 0, sizeof(raw_fake.mangle));
	memcpy(cqe, text, RAW_CQE_OP_OWNER);
	raw_to_device();
	*(volatile uint8_t *)(cqe + RAW_CQE_OP_OWNER) = text[RAW_CQE_OP_OWNER];
	p->done++;
	if (p->armed && p->done > p->armed_at) {
		p->armed = false;
		(void)eventfd_write(p->device.fd, 1);
	}
}

/* Returns the memory that a descriptor names; NULL when the descriptor is invalid. */
static uint8_t *buffer_at(struct port *p, uint32_t index)
{
	const struct raw_queue *q = &p->device.queue;
	const uint8_t *seg = q->wq + (size_t)(index & (q->wqe_n - 1)) * q->wqe_len + RAW_WQE_SEG;
	uint32_t word[4], len = 1u << (p->memory.stride_log + p->memory.strides_log);
	uint8_t *at;

	memcpy(word, seg, sizeof(word));
	at = (uint8_t *)((uintptr_t)be32toh(word[2]) << 32 | be32toh(word[3]));
	if (be32toh(word[0]) == len && be32toh(word[1]) == KEY && at >= p->memory.memory &&
	    at + len <= p->memory.memory + p->memory.len)
		return at;
	raw_fake.misread++;
	return NULL;
}

static void receive_frame(struct port *p, const uint8_t *bytes, uint32_t len)
{
	uint32_t all = 1u << p->memory.strides_log, stride = 1u << p->memory.stride_log;
	uint32_t need = (len + stride - 1) / stride;
	uint8_t *at;

	if (p->broken)
		return;
	if (need > all - p->used) {
		complete_receive(p, 0, 1u << 31 | (all - p->used) << 16);
		raw_fake.fillers++;
		p->buffer++;
		p->used = 0;
	}
	if ((uint16_t)(be32toh(p->at[1]) - p->buffer) == 0) {
		raw_fake.overruns++;
		return;
	}
	at = buffer_at(p, p->buffer);
	if (at == NULL)
		return;
	memcpy(at + p->used * stride, bytes, len);
	complete_receive(p, p->used, need << 16 | len);
	p->used += need;
	if (p->used == all) {
		p->buffer++;
		p->used = 0;
	}
}

static bool port_wants(const struct port *p, const struct lend_eth_frame *frame, bool neighbour)
{
	for (uint32_t i = 0; i < p->flows; i++) {
		const struct lend_eth_end *to = &p->flow[i].to;

		if (neighbour != (p->flow[i].kind == RAW_FLOW_NEIGHBOURS))
			continue;
		if (neighbour ? frame->to_mac[0] & 1 || memcmp(frame->to_mac, to->mac, 6) == 0
			      : memcmp(frame->to_mac, to->mac, 6) == 0 &&
				    lend_ip_same(&frame->to, &to->ip) && frame->to_udp == to->udp &&
				    frame->vlan == to->vlan)
			return true;
	}
	return false;
}

/* Computes the checksum as the device does, over what the carrier left in the checksum field. */
static void finish_sum(uint8_t *bytes, const struct lend_eth_frame *frame)
{
	uint8_t *udp = bytes + (frame->data - 8 - bytes);
	uint16_t sum = lend_eth_fold(lend_eth_add(0, udp, frame->len + 8));

	lend_eth_put16(udp + 6, sum == 0xffff ? 0xffff : (uint16_t)~sum);
}

static void transmit_frames(struct port *from, const struct raw_send *send)
{
	static uint32_t count;
	struct lend_eth_frame frame;
	enum lend_eth_verdict verdict;

	if (raw_fake.drop_every && ++count % raw_fake.drop_every == 0)
		return;
	memcpy(raw_fake.last, send->data, send->len);
	raw_fake.last_len = send->len;
	verdict = lend_eth_read(raw_fake.last, send->len, &frame);
	if (verdict == LEND_ETH_UDP && from->device.facts.checksums)
		finish_sum(raw_fake.last, &frame);
	for (uint32_t i = 0; i < PORTS; i++) {
		struct port *to = port_at[i];

		if (to && (verdict == LEND_ETH_UDP || (verdict == LEND_ETH_NEIGH && to != from)) &&
		    port_wants(to, &frame, verdict == LEND_ETH_NEIGH))
			receive_frame(to, raw_fake.last, send->len);
	}
}

static void drain_sends(struct port *p, uint32_t lag)
{
	while (p->head - p->tail > lag) {
		const struct raw_send *send = &p->pending[p->tail++ % PENDING];

		if (!raw_fake.send_broken)
			transmit_frames(p, send);
		p->signals += send->signal;
	}
}

static uint32_t fake_send(struct raw_device *device, const struct raw_send *send, uint32_t n)
{
	struct port *p = (struct port *)device;

	pthread_mutex_lock(&lock);
	raw_fake.posts++;
	if (raw_fake.took_most && n > raw_fake.took_most)
		n = raw_fake.took_most;
	if (n > PENDING - (p->head - p->tail))
		n = PENDING - (p->head - p->tail);
	for (uint32_t i = 0; i < n; i++) {
		p->pending[p->head++ % PENDING] = send[i];
		raw_fake.signals += send[i].signal;
	}
	drain_sends(p, raw_fake.lag);
	pthread_mutex_unlock(&lock);
	return n;
}

static int fake_sent(struct raw_device *device)
{
	struct port *p = (struct port *)device;
	int signals;

	if (raw_fake.send_broken)
		return -EIO;
	pthread_mutex_lock(&lock);
	drain_sends(p, raw_fake.lag);
	signals = (int)(p->signals + raw_fake.signals_more);
	p->signals = raw_fake.signals_more = 0;
	pthread_mutex_unlock(&lock);
	return signals;
}

static void settle_ports(void)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < PORTS; i++) {
		if (port_at[i])
			drain_sends(port_at[i], 0);
	}
	pthread_mutex_unlock(&lock);
}

static void inject_frame(const uint8_t *bytes, uint32_t len)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < PORTS; i++) {
		if (port_at[i] && port_at[i]->flows)
			receive_frame(port_at[i], bytes, len);
	}
	pthread_mutex_unlock(&lock);
}

static int fake_open(const char *name, struct raw_device **out)
{
	struct port *p;
	uint32_t i = 0;

	if (strncmp(name, "mlx5_", 5) != 0 || name[5] < '0' || name[5] > '3' || name[6])
		return lend_fail(ENODEV, "raw:%s: no such RDMA device: see ibv_devices", name);
	p = calloc(1, sizeof(*p));
	p->device = (struct raw_device){.ops = &raw_device_ops, .fd = -1};
	p->device.facts = (struct raw_facts){.netdev = "lo",
					     .mac = {2, 0xfa, 0xce, 0, 0, (uint8_t)(name[5] - '0')},
					     .mtu = raw_fake.mtu,
					     .checksums = raw_fake.checksums,
					     .stride_log = {6, 13},
					     .strides_log = {3, 16}};
	if (raw_fake.stride_log)
		memset(p->device.facts.stride_log, raw_fake.stride_log, 2);
	if (raw_fake.strides_log)
		memset(p->device.facts.strides_log, raw_fake.strides_log, 2);
	pthread_mutex_lock(&lock);
	while (port_at[i])
		i++;
	port_at[i] = p;
	raw_fake.opens++;
	pthread_mutex_unlock(&lock);
	*out = &p->device;
	return 0;
}

static int fake_start(struct raw_device *device, const struct raw_memory *memory)
{
	struct port *p = (struct port *)device;
	struct raw_queue *q = &device->queue;
	uint32_t cqes = memory->buffers << memory->strides_log >> raw_fake.cqe_less;

	if (raw_fake.refuse_start)
		return lend_fail(-raw_fake.refuse_start, "the test refuses: let it not");
	p->memory = *memory;
	*q = (struct raw_queue){.cqe_n = cqes,
				.cqe_len = raw_fake.cqe_len,
				.wqe_n = memory->buffers,
				.wqe_len = RAW_WQE_LEN,
				.cq_at = &p->at[0],
				.wq_at = &p->at[1],
				.key = KEY};
	q->cq = malloc((size_t)q->cqe_n * q->cqe_len);
	q->wq = malloc((size_t)q->wqe_n * q->wqe_len);
	memset(q->cq, 0xf0, (size_t)q->cqe_n * q->cqe_len);
	device->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return 0;
}

static int fake_steer(struct raw_device *device, const struct raw_flow *flow)
{
	struct port *p = (struct port *)device;
	int refuse = flow->kind == RAW_FLOW_UDP ? raw_fake.refuse_udp : raw_fake.refuse_neighbours;

	if (refuse)
		return lend_fail(-refuse, "raw: no right to steer frames to this endpoint: run as "
					  "root");
	pthread_mutex_lock(&lock);
	p->flow[p->flows++] = *flow;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int fake_revive(struct raw_device *device, enum raw_side side)
{
	struct port *p = (struct port *)device;

	if (raw_fake.revive_fails)
		return -EIO;
	pthread_mutex_lock(&lock);
	raw_fake.revived[side]++;
	if (side == RAW_SENDING) {
		raw_fake.send_broken = false;
		p->head = p->tail = p->signals = 0;
	} else {
		p->buffer = p->used = p->at[1] = 0;
		p->broken = false;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

static void fake_arm(struct raw_device *device, uint32_t next)
{
	struct port *p = (struct port *)device;

	pthread_mutex_lock(&lock);
	p->armed = p->done <= next;
	p->armed_at = next;
	if (!p->armed)
		(void)eventfd_write(device->fd, 1);
	pthread_mutex_unlock(&lock);
}

static void fake_calm(struct raw_device *device)
{
	eventfd_t signals;

	(void)eventfd_read(device->fd, &signals);
}

static void fake_look(struct raw_device *device, struct raw_health *health)
{
	(void)device;
	health->link = raw_fake.link;
	health->overruns = raw_fake.overruns;
}

static void fake_close(struct raw_device *device)
{
	struct port *p = (struct port *)device;

	pthread_mutex_lock(&lock);
	drain_sends(p, 0);
	for (uint32_t i = 0; i < PORTS; i++) {
		if (port_at[i] == p)
			port_at[i] = NULL;
	}
	raw_fake.opens--;
	pthread_mutex_unlock(&lock);
	if (device->fd >= 0)
		(void)close(device->fd);
	free(device->queue.cq);
	free(device->queue.wq);
	free(p);
}

const struct raw_device_ops raw_device_ops = {
    .open = fake_open,
    .start = fake_start,
    .steer = fake_steer,
    .send = fake_send,
    .sent = fake_sent,
    .revive = fake_revive,
    .arm = fake_arm,
    .calm = fake_calm,
    .look = fake_look,
    .close = fake_close,
};
