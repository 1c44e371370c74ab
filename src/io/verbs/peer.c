/* verbs/peer - peers by their address, hosts by the address handle that reaches them.
 *
 * A peer is a queue pair of a host. The address handle belongs to the host, so a thousand endpoints
 * of one host need only one. Both tables are of udp's type (io/peer_table.h): its key of 24 bytes
 * can also hold a GID, a LID and a queue pair number. Pinned entries stay; 256 others are reused in
 * rotation. A replaced address handle is destroyed after all sends posted before are done. Layer:
 * io. Threads: one per carrier.
 */
#include "io/verbs/verbs.h"

#include <stdlib.h>
#include <string.h>

#include "util/bits.h"

static struct lend_udp_key host_of(const struct lend_udp_key *peer)
{
	struct lend_udp_key key = *peer;

	key.scope = 0;
	return key;
}

static bool is_same(const struct lend_udp_key *a, const struct lend_udp_key *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Destroys the handles that no send uses any more. */
void verbs_host_free_retired(struct verbs *v)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < v->n_retired; i++) {
		if (v->retired[i].at <= v->done)
			(void)ibv_destroy_ah(v->retired[i].ah);
		else
			v->retired[kept++] = v->retired[i];
	}
	v->n_retired = kept;
}

static void retire_handle(struct verbs *v, struct ibv_ah *ah)
{
	struct verbs_retired *more;

	if (ah == NULL)
		return;
	verbs_host_free_retired(v);
	more = realloc(v->retired, (v->n_retired + 1) * sizeof(*more));
	if (more == NULL) { /* a send may be lost, as any datagram may */
		(void)ibv_destroy_ah(ah);
		return;
	}
	v->retired = more;
	v->retired[v->n_retired++] = (struct verbs_retired){ah, v->next};
}

static void free_retired(struct verbs *v, struct verbs_host *host)
{
	for (uint32_t i = 0; i < LEND_PRECEDENCES; i++) {
		retire_handle(v, host->ah[i]);
		host->ah[i] = NULL;
	}
}

static bool grow_hosts(struct verbs *v)
{
	struct verbs_host *host;

	if (v->n_host >= v->hosts.cap)
		return true;
	host = realloc(v->host, v->hosts.cap * sizeof(*host));
	if (host == NULL)
		return false;
	memset(host + v->n_host, 0, (v->hosts.cap - v->n_host) * sizeof(*host));
	v->host = host;
	v->n_host = v->hosts.cap;
	return true;
}

/* Returns the host of a peer, with its key set. NULL: no room. */
static struct verbs_host *find_host(struct verbs *v, const struct lend_udp_key *peer)
{
	struct lend_udp_key key = host_of(peer);
	int32_t index = lend_udp_peers_find(&v->hosts, &key);
	struct verbs_host *host;

	if (index == LEND_UDP_PEER_NONE || !grow_hosts(v))
		return NULL;
	host = &v->host[index];
	if (!is_same(&host->key, &key)) {
		free_retired(v, host);
		*host = (struct verbs_host){.key = key,
					    .sl = v->address.sl > 0 ? (uint8_t)v->address.sl : 0};
	}
	return host;
}

void verbs_host_set_path(struct verbs *v, const struct lend_udp_key *peer, uint8_t sl,
			 uint8_t path_bits)
{
	struct verbs_host *host = find_host(v, peer);

	if (v->address.sl >= 0)
		sl = (uint8_t)v->address.sl;
	if (host == NULL || (host->sl == sl && host->path_bits == path_bits))
		return;
	free_retired(v, host);
	host->sl = sl;
	host->path_bits = path_bits;
}

static struct ibv_ah_attr path_of(const struct verbs *v, const struct verbs_host *host,
				  uint8_t precedence)
{
	static const uint8_t none[16];
	struct ibv_ah_attr attr = {.dlid = host->key.port,
				   .sl = host->sl,
				   .src_path_bits = host->path_bits,
				   .port_num = v->port_num};

	if (memcmp(host->key.ip, none, sizeof(none)) != 0) {
		attr.is_global = 1;
		attr.grh.sgid_index = (uint8_t)v->gid_index;
		attr.grh.hop_limit = 64;
		attr.grh.traffic_class = verbs_traffic_class(v->address.tclass, precedence);
		memcpy(attr.grh.dgid.raw, host->key.ip, 16);
	}
	return attr;
}

bool verbs_host_path(struct verbs *v, const struct lend_udp_key *peer, uint8_t precedence,
		     struct ibv_ah_attr *path)
{
	const struct verbs_host *host = find_host(v, peer);

	if (host != NULL)
		*path = path_of(v, host, precedence);
	return host != NULL;
}

static void make_handle(struct verbs *v, struct verbs_host *host, uint8_t precedence)
{
	struct ibv_ah_attr attr = path_of(v, host, precedence);

	host->ah[precedence] = ibv_create_ah(v->ring->pd, &attr);
	if (host->ah[precedence] != NULL)
		v->io.stats.handles_made++;
}

struct ibv_ah *verbs_host_ah(struct verbs *v, const struct lend_udp_key *peer, uint8_t class)
{
	struct verbs_host *host = find_host(v, peer);
	uint8_t precedence = lend_class_precedence(class);

	if (host == NULL)
		return NULL;
	if (host->ah[precedence] == NULL)
		make_handle(v, host, precedence);
	return host->ah[precedence];
}

void verbs_host_forget(struct verbs *v)
{
	for (uint32_t i = 0; i < v->n_host; i++)
		free_retired(v, &v->host[i]);
}

/* The first pin of a peer also pins its host, and the last unpin unpins it. */
void verbs_peer_pin(struct verbs *v, uint32_t index, bool kept)
{
	const struct lend_udp_peer *peer = lend_udp_peers_at(&v->peers, index);
	struct verbs_host *host;

	if (peer == NULL)
		return;
	if ((kept && peer->pins == 0) || (!kept && peer->pins == 1)) {
		host = find_host(v, &peer->key);
		if (host != NULL)
			lend_udp_peers_pin(&v->hosts, (uint32_t)(host - v->host), kept);
	}
	lend_udp_peers_pin(&v->peers, index, kept);
}

bool verbs_peer_key(const struct verbs *v, const struct ibv_wc *wc, const uint8_t *grh,
		    struct lend_udp_key *key, uint8_t *tclass)
{
	memset(key, 0, sizeof(*key));
	*tclass = 0;
	if (wc->wc_flags & IBV_WC_GRH && !verbs_grh_read(grh, v->gid, key->ip, tclass))
		return false;
	if (v->ethernet)
		return wc->wc_flags & IBV_WC_GRH && (key->scope = wc->src_qp) != 0;
	key->port = wc->slid;
	key->scope = wc->src_qp;
	return true;
}
