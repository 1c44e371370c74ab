/* traffic_class - what the eight classes of calls are called on networks.
 *
 * Calls that name no priority are of class NORMAL and look as if there were no classes. The others
 * get a class selector (RFC 2474): its three bits are the IP precedence and the priority of 802.1Q
 * alike, and switches that were told nothing sort by them; 1 is below 0 for both. 6 and 7 are the
 * network's own. Layer: util.
 */
#ifndef LEND_UTIL_TRAFFIC_CLASS_H
#define LEND_UTIL_TRAFFIC_CLASS_H

#include <stdint.h>

enum { LEND_CLASS_NORMAL = 3, LEND_PRECEDENCES = 6 };

/* Below LEND_PRECEDENCES. */
static inline uint8_t lend_class_precedence(uint8_t class)
{
	return (uint8_t)(0x11110245u >> 4 * (class & 7) & 7);
}

/* Beside it in the same byte: marks of congestion are understood here (ECT(0) of RFC 3168). */
enum { LEND_ECN_CAPABLE = 2, LEND_ECN_MARKED = 3 };

/* IPv4's TOS and IPv6's traffic class, without the two bits of ECN. */
static inline uint8_t lend_class_tos(uint8_t class)
{
	return (uint8_t)(lend_class_precedence(class) << 5);
}

/* From here on it is a class above NORMAL. */
enum { LEND_TOS_URGENT = 0x40 };

#endif
