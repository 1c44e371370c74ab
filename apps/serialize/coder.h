/* coder - one library that encodes and decodes the message of lend bench serialize.
 * Layer: apps. Threads: one. */
#ifndef APPS_SERIALIZE_CODER_H
#define APPS_SERIALIZE_CODER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The message: levels inside each other, with as many items each. */
struct shape {
	unsigned levels, items;
	const uint8_t *payload; /* data of each item */
	size_t len;
	size_t in_place; /* bytes from which lend does not copy a value */
};

/* Values of item number i, the same for all coders. name has room for 24 bytes. */
struct item_values {
	int64_t id;
	double price;
	int32_t count;
	char name[24];
};
void item_values_of(struct item_values *values, unsigned i);
/* Returns how many bytes of an item are as in the shape: of its name and payload; 0: one value is
 * another. */
size_t item_check(const struct shape *shape, unsigned i, int64_t id, double price, int32_t count,
		  const char *name, const uint8_t *data, size_t len);

struct coder {
	const char *name;
	void *(*open)(const struct shape *shape); /* makes the message */
	size_t (*encode)(void *state);            /* returns the bytes of the encoded message */
	void (*gather)(void *state, uint8_t *to); /* copies what was encoded */
	int (*decode)(void *state, const uint8_t *bytes, size_t len); /* returns whether it did */
	size_t (*check)(void *state); /* sum of item_check(); 0: an item is wrong */
	void (*close)(void *state);
};
extern const struct coder coder_lend, coder_protobuf_c;
/* NULL where the library is not installed. */
extern const struct coder coder_protobuf_cxx __attribute__((weak));
extern const struct coder coder_flatbuffers __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
