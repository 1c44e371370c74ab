#include "rpc/level_rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/carrier_kind.h"
#include "lend/carrier.h"
#include "seal/suite.h"
#include "sys/last_error.h"

static const char *const names[LEND_LEVELS] = {"none", "authenticate", "encrypt"};

/* Reads "udp=" at the begin of an item. Returns what is behind it, NULL: there is no such carrier.
 */
static const char *read_carrier(const char *item, size_t len, char carrier[LEND_LEVEL_CARRIER])
{
	const char *equals = memchr(item, '=', len);
	size_t n = equals ? (size_t)(equals - item) : 0;
	char address[LEND_LEVEL_CARRIER + 2];

	*carrier = 0;
	if (!equals)
		return item;
	if (n == 0 || n >= LEND_LEVEL_CARRIER)
		return NULL;
	memcpy(carrier, item, n);
	carrier[n] = 0;
	for (const char *end = ":@"; *end; end++) {
		(void)snprintf(address, sizeof(address), "%s%c", carrier, *end);
		if (lend_carrier_kind(address))
			return equals + 1;
	}
	return NULL;
}

static bool read_item(struct lend_level_rules *rules, const char *item, size_t len)
{
	static const char local[] = "+local";
	char carrier[LEND_LEVEL_CARRIER];
	const char *text = read_carrier(item, len, carrier), *end = item + len;
	size_t n = sizeof(local) - 1;
	bool all;

	if (!text || rules->n == LEND_LEVEL_ITEMS)
		return false;
	all = (size_t)(end - text) > n && !memcmp(end - n, local, n);
	end -= all ? n : 0;
	for (uint8_t i = 0; i < LEND_LEVELS; i++)
		if ((size_t)(end - text) == strlen(names[i]) &&
		    !memcmp(text, names[i], strlen(names[i]))) {
			memcpy(rules->item[rules->n].carrier, carrier, sizeof(carrier));
			rules->item[rules->n].level = i;
			rules->item[rules->n].local = all || *carrier;
			rules->n++;
			return true;
		}
	return false;
}

int lend_level_rules_read(struct lend_level_rules *rules, const char *text)
{
	const char *at = text ? text : "";

	rules->n = 0;
	for (size_t len; *at; at += len + (at[len] == ',')) {
		len = strcspn(at, ",");
		if (!read_item(rules, at, len))
			return lend_fail(EINVAL,
					 "LEND_LEVEL=%.60s: write none, authenticate or encrypt, "
					 "with +local behind it for shm and rings as well, or "
					 "CARRIER=LEVEL for one carrier; at most %d, with commas",
					 text, LEND_LEVEL_ITEMS);
	}
	return 0;
}

/* Returns whether an address is of this carrier: "udp" or "dpdk:memif". */
static bool is_of(const char *address, const char *carrier)
{
	size_t len = strlen(carrier);

	return !strncmp(address, carrier, len) && (address[len] == ':' || address[len] == '@');
}

/* Returns the address on the broker's device; any other address as it is. */
static const char *device_of(const char *address)
{
	const char *behind = address && lend_carrier_traits(address) & LEND_CARRIER_BROKERED
				 ? strchr(address, '/')
				 : NULL;

	return behind ? behind + 1 : address;
}

/* Both ends choose the same: a session through a broker has the level of the broker's device, at
 * whose other end there may be no broker. */
uint8_t lend_level_rules_of(const struct lend_level_rules *rules, const char *address)
{
	const char *device = device_of(address);
	bool local = device && lend_carrier_traits(device) & LEND_CARRIER_USER;

	for (uint32_t i = rules->n; i-- > 0;) {
		const char *carrier = rules->item[i].carrier;

		if (*carrier ? address && (is_of(address, carrier) || is_of(device, carrier))
			     : !local || rules->item[i].local)
			return rules->item[i].level;
	}
	return local ? LEND_LEVEL_NONE : LEND_LEVEL_ENCRYPT;
}

const char *lend_carrier_level(const char *address)
{
	struct lend_level_rules rules;

	return lend_level_rules_read(&rules, getenv("LEND_LEVEL")) < 0
		   ? NULL
		   : names[lend_level_rules_of(&rules, address)];
}
