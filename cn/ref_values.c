/* ref_values - references as values: in messages, narrower, as text.
 * Layer: cn. Threads: any; text and parse: the endpoint's. */
#include "cn/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sys/last_error.h"

#define PREFIX "lend1:"

_Static_assert(sizeof(struct lend_ref) == LEND_MEMREF_LEN, "wire");

void lend_ref_store(void *message, const struct lend_ref *ref)
{
	memcpy(message, ref, sizeof(*ref));
}

void lend_ref_load(struct lend_ref *ref, const void *message)
{
	memcpy(ref, message, sizeof(*ref));
}

uint64_t lend_ref_len(const struct lend_ref *ref)
{
	struct lend_memref r;

	return lend_memref_decode((const uint8_t *)ref, &r) ? lend_memref_len(&r) : 0;
}

int lend_ref_slice(const struct lend_ref *ref, uint64_t offset, uint64_t len, unsigned rights,
		   struct lend_ref *out)
{
	struct lend_memref r;
	int rc;

	if (!lend_memref_decode((const uint8_t *)ref, &r))
		return lend_fail(EINVAL, "these 64 bytes are not a reference");
	rc = lend_memref_slice(&r, offset, len, rights, &r);
	if (rc == -ERANGE)
		return lend_fail(ERANGE, "the slice ends after the reference's %llu bytes",
				 (unsigned long long)lend_memref_len(&r));
	if (rc == -EPERM)
		return lend_fail(EPERM,
				 "the reference itself lacks a right that the slice asks for");
	if (rc == -EMLINK)
		return lend_fail(
		    EMLINK,
		    "sliced twice already: let the node do it with lend_ref_slice_remote()");
	if (rc == 0)
		lend_memref_encode(&r, (uint8_t *)out);
	return rc;
}

static const struct cn_node *node_of(const struct lend_mem *mem, const struct lend_memref *ref)
{
	uint32_t id = ref->node, worker = lend_memref_worker(ref);

	for (uint32_t i = 0; i < mem->nodes; i++)
		if (mem->node[i]->greeted && mem->node[i]->id == id &&
		    mem->node[i]->worker == worker)
			return mem->node[i];
	for (uint32_t i = 0; i < mem->aliases && i < CN_ALIAS_MAX; i++)
		if (mem->alias[i].id == id && mem->alias[i].worker == worker)
			return mem->node[mem->alias[i].node];
	return NULL;
}

int lend_ref_text(struct lend_mem *mem, const struct lend_ref *ref, char *text, size_t cap)
{
	const struct cn_node *node;
	char body[LEND_MEMREF_TEXT];
	struct lend_memref r;
	int n;

	if (!lend_memref_decode((const uint8_t *)ref, &r))
		return lend_fail(EINVAL, "these 64 bytes are not a reference");
	node = node_of(mem, &r);
	if (!node)
		return lend_fail(EHOSTUNREACH,
				 "the reference is of memory node %08x, which this client does not "
				 "know: add that node's address",
				 r.node);
	lend_memref_text((const uint8_t *)ref, body);
	n = snprintf(text, cap, PREFIX "%.*s@%s%s", LEND_MEMREF_TEXT, body,
		     node->pool ? "pool:" : "", node->address + (node->pool ? 4 : 0));
	if (n < 0 || (size_t)n >= cap)
		return lend_fail(ERANGE, "a reference's text needs %d bytes", n + 1);
	return 0;
}

int lend_ref_parse(struct lend_mem *mem, const char *text, struct lend_ref *ref)
{
	const size_t head = sizeof(PREFIX) - 1;
	struct lend_memref r;
	uint8_t bytes[LEND_MEMREF_LEN];
	int index;

	if (strncmp(text, PREFIX, head) || strlen(text) < head + LEND_MEMREF_TEXT + 2 ||
	    text[head + LEND_MEMREF_TEXT] != '@' || !lend_memref_parse(text + head, bytes) ||
	    !lend_memref_decode(bytes, &r))
		return lend_fail(
		    EINVAL, "not a reference: it reads lend1:...@ADDRESS, as lend put prints it");
	text += head + LEND_MEMREF_TEXT + 1;
	index = cn_node_add(mem, text, strlen(text));
	if (index < 0)
		return index;
	if (!mem->node[index]->greeted || mem->node[index]->id != r.node ||
	    mem->node[index]->worker != lend_memref_worker(&r))
		cn_node_alias(mem, r.node, lend_memref_worker(&r), (uint16_t)index);
	memcpy(ref, bytes, sizeof(*ref));
	return 0;
}
