/* ids - see ids.h. */
#include "apps/social/ids.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/social/social.h"
#include "util/siphash.h"

enum { COUNTER_BITS = 12, TIME_BITS = 40, MACHINE_BITS = 11 };

int64_t social_ids_next(struct social_ids *ids, uint64_t now_ms)
{
	uint64_t time_mask = (UINT64_C(1) << TIME_BITS) - 1;

	if (now_ms > ids->last_ms) {
		ids->last_ms = now_ms;
		ids->counter = 0;
	} else if (++ids->counter >> COUNTER_BITS) {
		ids->last_ms++;
		ids->counter = 0;
	}
	return (int64_t)((uint64_t)ids->machine << (TIME_BITS + COUNTER_BITS) |
			 ((ids->last_ms - SOCIAL_IDS_EPOCH) & time_mask) << COUNTER_BITS |
			 ids->counter);
}

/* Appends the MAC addresses of this machine. */
static size_t read_addresses(char *text, size_t cap)
{
	DIR *dir = opendir("/sys/class/net");
	size_t len = 0;

	for (struct dirent *d; dir && (d = readdir(dir));) {
		char path[320];
		FILE *file;

		(void)snprintf(path, sizeof(path), "/sys/class/net/%s/address", d->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		len += fread(text + len, 1, cap - len, file);
		fclose(file);
	}
	if (dir)
		closedir(dir);
	return len;
}

static uint32_t hash_machine(void)
{
	static const uint8_t key[16] = "social machines";
	char text[512];
	size_t len = read_addresses(text, sizeof(text) - 32);

	len += (size_t)snprintf(text + len, 32, "%d", (int)getpid());
	return (uint32_t)(lend_siphash64(key, text, len) & ((1u << MACHINE_BITS) - 1));
}

int64_t social_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t social_new_id(void)
{
	static struct social_ids ids;

	if (!ids.last_ms)
		ids.machine = hash_machine();
	return social_ids_next(&ids, (uint64_t)social_now_ms());
}
