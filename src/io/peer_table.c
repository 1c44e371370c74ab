#include "io/peer_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/rand.h"

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool lend_udp_key_is_v4(const struct lend_udp_key *key)
{
	return memcmp(key->ip, mapped, sizeof(mapped)) == 0;
}

bool lend_udp_key_from(struct lend_udp_key *key, const struct sockaddr_storage *address)
{
	memset(key, 0, sizeof(*key));
	if (address->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)address;

		memcpy(key->ip, mapped, sizeof(mapped));
		memcpy(key->ip + 12, &in->sin_addr, 4);
		key->port = in->sin_port;
		return true;
	}
	if (address->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const void *)address;

		memcpy(key->ip, &in->sin6_addr, 16);
		key->scope = in->sin6_scope_id;
		key->port = in->sin6_port;
		return true;
	}
	return false;
}

socklen_t lend_udp_key_to(const struct lend_udp_key *key, int family,
			  struct sockaddr_storage *address)
{
	if (family == AF_INET) {
		struct sockaddr_in *in = (void *)address;

		if (!lend_udp_key_is_v4(key))
			return 0;
		*in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = key->port};
		memcpy(&in->sin_addr, key->ip + 12, 4);
		return sizeof(*in);
	}
	struct sockaddr_in6 *in = (void *)address;

	*in = (struct sockaddr_in6){
	    .sin6_family = AF_INET6, .sin6_port = key->port, .sin6_scope_id = key->scope};
	memcpy(&in->sin6_addr, key->ip, 16);
	return sizeof(*in);
}

static uint64_t mix_bits(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint32_t *bucket_of(const struct lend_udp_peers *p, const struct lend_udp_key *key)
{
	uint64_t word[3];

	memcpy(word, key, sizeof(word));
	return &p->bucket[mix_bits(mix_bits(word[0] ^ p->secret[0], word[1] ^ p->secret[1]) ^
				       word[2],
				   p->secret[0] | 1) &
			  (p->cap - 1)];
}

int lend_udp_peers_init(struct lend_udp_peers *p)
{
	*p = (struct lend_udp_peers){.cap = 2 * LEND_UDP_LOOSE_MAX};
	lend_random(p->secret, sizeof(p->secret));
	p->peer = calloc(p->cap, sizeof(*p->peer));
	p->bucket = calloc(p->cap, sizeof(*p->bucket));
	if (p->peer != NULL && p->bucket != NULL)
		return 0;
	lend_udp_peers_free(p);
	return -ENOMEM;
}

void lend_udp_peers_free(struct lend_udp_peers *p)
{
	free(p->peer);
	free(p->bucket);
	*p = (struct lend_udp_peers){0};
}

static bool grow_table(struct lend_udp_peers *p)
{
	uint32_t cap = p->cap * 2;
	struct lend_udp_peer *peer;
	uint32_t *bucket;

	if (cap > LEND_UDP_PEERS_MAX)
		return false;
	bucket = calloc(cap, sizeof(*bucket));
	if (bucket == NULL)
		return false;
	peer = realloc(p->peer, cap * sizeof(*peer));
	if (peer == NULL) {
		free(bucket);
		return false;
	}
	memset(peer + p->cap, 0, (cap - p->cap) * sizeof(*peer));
	free(p->bucket);
	p->peer = peer;
	p->bucket = bucket;
	p->cap = cap;
	/* Only called with no free entry: all of [0, top) are in use and go into the new chains. */
	for (uint32_t i = 0; i < p->top; i++) {
		uint32_t *head = bucket_of(p, &peer[i].key);

		peer[i].next = *head;
		*head = i + 1;
	}
	return true;
}

static void loose_remove(struct lend_udp_peers *p, uint32_t index)
{
	struct lend_udp_peer *e = &p->peer[index];

	*(e->older ? &p->peer[e->older - 1].newer : &p->oldest) = e->newer;
	*(e->newer ? &p->peer[e->newer - 1].older : &p->newest) = e->older;
	e->older = e->newer = 0;
	p->loose--;
}

static void loose_add(struct lend_udp_peers *p, uint32_t index)
{
	struct lend_udp_peer *e = &p->peer[index];

	e->newer = 0;
	e->older = p->newest;
	*(p->newest ? &p->peer[p->newest - 1].newer : &p->oldest) = index + 1;
	p->newest = index + 1;
	p->loose++;
}

static void let_go(struct lend_udp_peers *p, uint32_t index)
{
	uint32_t *at = bucket_of(p, &p->peer[index].key);

	loose_remove(p, index);
	while (*at != index + 1)
		at = &p->peer[*at - 1].next;
	*at = p->peer[index].next;
	p->peer[index].used = false;
	p->peer[index].next = p->free;
	p->free = index + 1;
}

static int32_t take_entry(struct lend_udp_peers *p)
{
	uint32_t index;

	if (p->loose >= LEND_UDP_LOOSE_MAX)
		let_go(p, p->oldest - 1);
	if (p->free == 0 && p->top == p->cap && !grow_table(p)) {
		if (p->oldest == 0)
			return LEND_UDP_PEER_NONE;
		let_go(p, p->oldest - 1);
	}
	if (p->free == 0)
		return (int32_t)p->top++;
	index = p->free - 1;
	p->free = p->peer[index].next;
	return (int32_t)index;
}

int32_t lend_udp_peers_find(struct lend_udp_peers *p, const struct lend_udp_key *key)
{
	int32_t index;
	uint32_t *head;

	for (uint32_t at = *bucket_of(p, key); at != 0; at = p->peer[at - 1].next) {
		if (memcmp(&p->peer[at - 1].key, key, sizeof(*key)) != 0)
			continue;
		if (p->peer[at - 1].pins == 0 && p->newest != at) {
			loose_remove(p, at - 1);
			loose_add(p, at - 1);
		}
		return (int32_t)(at - 1);
	}
	index = take_entry(p);
	if (index == LEND_UDP_PEER_NONE)
		return index;
	head = bucket_of(p, key);
	p->peer[index] = (struct lend_udp_peer){
	    .key = *key, .next = *head, .joined_max = UINT16_MAX, .used = true};
	*head = (uint32_t)index + 1;
	loose_add(p, (uint32_t)index);
	return index;
}

void lend_udp_peers_pin(struct lend_udp_peers *p, uint32_t index, bool kept)
{
	if (index >= p->top || !p->peer[index].used)
		return;
	if (kept && p->peer[index].pins++ == 0)
		loose_remove(p, index);
	if (!kept && p->peer[index].pins > 0 && --p->peer[index].pins == 0) {
		if (p->loose >= LEND_UDP_LOOSE_MAX)
			let_go(p, p->oldest - 1);
		loose_add(p, index);
	}
}

const struct lend_udp_peer *lend_udp_peers_at(const struct lend_udp_peers *p, uint32_t index)
{
	return index < p->top && p->peer[index].used ? &p->peer[index] : NULL;
}

void lend_udp_peers_set_joined_max(struct lend_udp_peers *p, uint32_t index, uint32_t joined_max)
{
	p->peer[index].joined_max = (uint16_t)joined_max;
	p->peer[index].route_known = true;
}
