#include "sys/secret_memory.h"

#include <string.h>
#include <sys/mman.h>

int lend_secret_map(struct lend_mapping *memory, size_t len)
{
	int rc = lend_mapping_map_sparse(memory, len);

	if (rc < 0)
		return rc;
	(void)madvise(memory->base, memory->len, MADV_DONTDUMP);
	(void)madvise(memory->base, memory->len, MADV_WIPEONFORK);
	(void)mlock2(memory->base, memory->len, MLOCK_ONFAULT);
	return 0;
}

void lend_secret_unmap(struct lend_mapping *memory)
{
	if (memory->base)
		explicit_bzero(memory->base, memory->len);
	lend_mapping_unmap(memory);
}
