/* method_hash - number of a method that has a name, such as "/shop.Cart/Add".
 * Layer: util. No state. */
#ifndef LEND_UTIL_METHOD_HASH_H
#define LEND_UTIL_METHOD_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Returns the number of a name: FNV-1a of its bytes, outside [0x4c454e00, 0x4c454eff], which Lend's
 * own services have. Two names may have one number: the server has to check. */
static inline uint32_t lend_method_hash(const char *name, size_t len)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (uint8_t)name[i]) * 16777619u;
	return hash >> 8 == 0x4c454e ? ~hash : hash;
}

#endif
