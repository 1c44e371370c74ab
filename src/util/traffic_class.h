/* traffic_class - the eight classes of calls as network priorities.
 *
 * Calls without a priority are of class NORMAL and are sent as if there were no classes. The other
 * classes map to a class selector (RFC 2474): its three bits are the IP precedence and also the
 * priority of 802.1Q, by which switches sort without configuration; 1 is below 0 for both. 6 and 7
 * are reserved for the network itself. Layer: util. */
#ifndef LEND_UTIL_TRAFFIC_CLASS_H
#define LEND_UTIL_TRAFFIC_CLASS_H

#include <stdint.h>

enum { LEND_CLASS_NORMAL = 3, LEND_PRECEDENCES = 6 };

/* Returns the precedence of a class, below LEND_PRECEDENCES. */
static inline uint8_t lend_class_precedence(uint8_t class)
{
	return (uint8_t)(0x11110245u >> 4 * (class & 7) & 7);
}

/* The ECN bits of the same byte. CAPABLE: the receiver processes congestion marks (ECT(0) of RFC
 * 3168). */
enum { LEND_ECN_CAPABLE = 2, LEND_ECN_MARKED = 3 };

/* Returns IPv4's TOS or IPv6's traffic class, without the two bits of ECN. */
static inline uint8_t lend_class_tos(uint8_t class)
{
	return (uint8_t)(lend_class_precedence(class) << 5);
}

/* Values from here on belong to a class above NORMAL. */
enum { LEND_TOS_URGENT = 0x40 };

#endif
