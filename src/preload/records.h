/* records - records of this library by the gRPC object that they belong to.
 *
 * A record embeds a node as its first field. gRPC's rules keep an object, and so its record, alive
 * while a function uses it. Layer: preload. Threads: any. */
#ifndef LEND_PRELOAD_RECORDS_H
#define LEND_PRELOAD_RECORDS_H

#include <pthread.h>
#include <stdint.h>

enum { TABLE_BUCKETS = 4096 };

struct table_node {
	const void *key;
	struct table_node *next;
};
struct table {
	pthread_mutex_t lock;
	struct table_node *bucket[TABLE_BUCKETS];
};

static inline struct table_node **table_bucket(struct table *t, const void *key)
{
	return &t->bucket[((uintptr_t)key * 0x9e3779b97f4a7c15u) >> 52];
}

static inline void table_put(struct table *t, const void *key, struct table_node *node)
{
	struct table_node **at = table_bucket(t, key);

	pthread_mutex_lock(&t->lock);
	node->key = key;
	node->next = *at;
	*at = node;
	pthread_mutex_unlock(&t->lock);
}

/* Returns the record of an object; NULL: there is none. */
static inline void *table_find(struct table *t, const void *key)
{
	struct table_node *node;

	pthread_mutex_lock(&t->lock);
	for (node = *table_bucket(t, key); node && node->key != key;)
		node = node->next;
	pthread_mutex_unlock(&t->lock);
	return node;
}

/* Removes and returns the record of an object; NULL: there is none. */
static inline void *table_remove(struct table *t, const void *key)
{
	struct table_node **at = table_bucket(t, key), *node;

	pthread_mutex_lock(&t->lock);
	while (*at && (*at)->key != key)
		at = &(*at)->next;
	node = *at;
	if (node)
		*at = node->next;
	pthread_mutex_unlock(&t->lock);
	return node;
}

#endif
