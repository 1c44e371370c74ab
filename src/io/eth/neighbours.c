/* neighbours - the neighbours in use: requests for their MACs, the table, and its refresh.
 *
 * A neighbour in use is verified every half minute, first by unicast requests and then by
 * broadcasts. An entry that is no longer in use is evicted when another neighbour needs it.
 *
 * Layer: io. Threads: any, with the table's lock held; pure.
 */
#include "io/eth/eth.h"

#define MS 1000000u

enum { ALONE_MAX = 3, TRIES_MAX = 6 };
static const lend_ns renew_ns = 30000ull * MS, decide_ns = 500ull * MS, forget_ns = 60000ull * MS;

static struct lend_host *find_host(struct lend_hosts *hosts, const struct lend_ip *ip,
				   uint16_t vlan)
{
	for (uint32_t i = 0; i < hosts->n; i++) {
		struct lend_host *host = &hosts->host[i];

		if (host->from.vlan == vlan && lend_ip_same(&host->ip, ip))
			return host;
	}
	return NULL;
}

static struct lend_host *take_entry(struct lend_hosts *hosts, lend_ns now)
{
	struct lend_host *oldest = &hosts->host[0];

	if (hosts->n < LEND_HOSTS)
		return &hosts->host[hosts->n++];
	for (uint32_t i = 1; i < LEND_HOSTS; i++) {
		struct lend_host *host = &hosts->host[i];

		if (host->wanted < oldest->wanted)
			oldest = host;
	}
	return now > oldest->wanted + forget_ns ? oldest : NULL;
}

struct lend_host *lend_host_use(struct lend_hosts *hosts, const struct lend_eth_end *from,
				const struct lend_ip *ip, lend_ns now)
{
	struct lend_host *host = find_host(hosts, ip, from->vlan);

	if (host == NULL) {
		host = take_entry(hosts, now);
		if (host == NULL)
			return NULL;
		*host = (struct lend_host){.state = LEND_HOST_REQUESTED, .ip = *ip, .due = now};
	}
	if (host->state == LEND_HOST_KNOWN && now > host->wanted + forget_ns)
		host->due = now; /* the entry was not refreshed while unused */
	host->from = *from;
	host->wanted = now;
	return host;
}

bool lend_host_next_round(struct lend_host *host, lend_ns now)
{
	if (host->state != LEND_HOST_REQUESTED || host->tries < TRIES_MAX || now < host->due)
		return false;
	host->tries = 0;
	host->due = now;
	return true;
}

static void learn_mac(struct lend_hosts *hosts, struct lend_host *host, const uint8_t mac[6],
		      lend_ns now)
{
	hosts->version += memcmp(host->mac, mac, 6) != 0 || host->state == LEND_HOST_REQUESTED;
	memcpy(host->mac, mac, 6);
	host->state = LEND_HOST_KNOWN;
	host->tries = 0;
	host->due = now + renew_ns;
}

void lend_host_recheck(struct lend_host *host, lend_ns now)
{
	if (host->state != LEND_HOST_KNOWN)
		return;
	host->state = LEND_HOST_RECHECKED;
	host->others = host->same = false;
	host->tries = 0;
	host->due = now;
}

void lend_host_update(struct lend_hosts *hosts, const struct lend_eth_neigh *ask, lend_ns now)
{
	struct lend_host *host = find_host(hosts, &ask->from, ask->vlan);
	bool same;

	if (host == NULL)
		return;
	same = memcmp(host->mac, ask->mac, 6) == 0;
	if (host->state == LEND_HOST_REQUESTED && !ask->question && host->tries > 0)
		learn_mac(hosts, host, ask->mac, now);
	else if (host->state == LEND_HOST_KNOWN && same && !ask->question)
		learn_mac(hosts, host, ask->mac, now);
	else if (host->state == LEND_HOST_KNOWN && !same)
		lend_host_recheck(host, now);
	else if (host->state == LEND_HOST_RECHECKED && host->tries > 0 && !ask->question) {
		host->same |= same;
		host->others |= !same;
		if (!same)
			memcpy(host->other, ask->mac, 6);
	}
}

/* Accepts a MAC half a second after the request: the known one if it replied. */
static void decide_mac(struct lend_hosts *hosts, struct lend_host *host, lend_ns now)
{
	learn_mac(hosts, host, host->others && !host->same ? host->other : host->mac, now);
}

static uint32_t write_request(struct lend_host *host, lend_ns now, uint8_t *bytes)
{
	bool alone = host->state == LEND_HOST_KNOWN && host->tries < ALONE_MAX;
	uint32_t wait = 100u << (host->tries < 4 ? host->tries : 4);

	if (host->state == LEND_HOST_KNOWN && host->tries >= TRIES_MAX)
		host->state = LEND_HOST_REQUESTED; /* peers may continue to use its MAC */
	host->tries += host->tries < 255;
	host->due = now + (host->state == LEND_HOST_RECHECKED ? decide_ns : (lend_ns)wait * MS);
	return lend_eth_neigh_request_write(bytes, &host->from, &host->ip,
					    alone ? host->mac : NULL);
}

uint32_t lend_host_next_request(struct lend_hosts *hosts, lend_ns now,
				uint8_t bytes[LEND_ETH_NEIGH_MAX])
{
	for (uint32_t i = 0; i < hosts->n; i++) {
		struct lend_host *host = &hosts->host[i];

		if (host->due > now)
			continue;
		if (host->state == LEND_HOST_RECHECKED && host->tries > 0)
			decide_mac(hosts, host, now);
		else if (now > host->wanted + forget_ns)
			host->due = now + forget_ns;
		else
			return write_request(host, now, bytes);
	}
	return 0;
}
