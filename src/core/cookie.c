#include "core/cookie.h"

#include "util/siphash.h"

#define LIFE_NS (10000 * LEND_MS)
#define KEY_NS  (60000 * LEND_MS)

/* Sealed CONNECTs per time that are opened without a cookie. */
#define CHARGED_NS (100 * LEND_MS)
enum { CHARGED_MAX = 64 };

static void mac_of(const struct lend_core *c, uint64_t holder, uint64_t connect, lend_ns time,
		   uint8_t mac[16])
{
	const uint64_t minute[] = {time / KEY_NS, 0}, text[] = {holder, time, connect};
	uint8_t key[16];

	lend_siphash128(c->cfg.seed, minute, sizeof(minute), key);
	lend_siphash128(key, text, sizeof(text), mac);
}

void lend_cookie_make(const struct lend_core *c, uint64_t holder, uint64_t connect,
		      struct lend_pkt_cookie *to)
{
	to->time = c->now;
	mac_of(c, holder, connect, to->time, to->mac);
}

bool lend_cookie_good(const struct lend_core *c, uint64_t holder, uint64_t connect,
		      const struct lend_pkt_cookie *cookie)
{
	uint8_t mac[16];

	if (cookie->time == 0 || cookie->time > c->now || c->now - cookie->time >= LIFE_NS)
		return false;
	mac_of(c, holder, connect, cookie->time, mac);
	return lend_equal_ct(mac, cookie->mac, sizeof(mac));
}

bool lend_cookie_charged(struct lend_core *c)
{
	if (c->now - c->charged_at >= CHARGED_NS) {
		c->charged_at = c->now;
		c->charged = 0;
	}
	c->charged += c->charged <= CHARGED_MAX;
	return c->charged > CHARGED_MAX || lend_cookie_demanded(c);
}

bool lend_cookie_demanded(const struct lend_core *c)
{
	return c->half.n > 0 && c->half.n * 4 >= c->half_max;
}

uint64_t lend_core_address(const struct lend_core *c, const struct lend_in *in)
{
	uint32_t carrier = LEND_PEER_CARRIER(in->peer);
	uint8_t text[1 + UINT8_MAX];
	uint64_t name;

	if (c->cfg.path[carrier].proven)
		return 1 + carrier;
	if (!in->addr)
		return 0;
	text[0] = (uint8_t)carrier;
	memcpy(text + 1, in->addr, in->addr_len);
	name = lend_siphash64(c->cfg.seed, text, 1u + in->addr_len);
	return name + !name;
}
