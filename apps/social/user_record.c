/* user_record - see user_record.h. */
#include "apps/social/user_record.h"

#include "apps/social/password.h"

const char *user_key(void *request, const char *name)
{
	return social_key(request, "n:%.110s", name);
}

struct store_bytes user_record_make(void *request, const Social__Account *in, int64_t id)
{
	Social__UserRecord record = SOCIAL__USER_RECORD__INIT;
	char salt[SOCIAL_SALT_LEN + 1], hash[SOCIAL_HASH_LEN + 1];
	uint8_t *bytes;

	social_random_text(salt, SOCIAL_SALT_LEN);
	social_password_hash(in->password, salt, hash);
	record.user_id = id;
	record.first_name = in->first_name;
	record.last_name = in->last_name;
	record.salt = salt;
	record.password_hash = hash;
	bytes = social_memory(request, social__user_record__get_packed_size(&record));
	return (struct store_bytes){bytes, social__user_record__pack(&record, bytes)};
}

Social__UserRecord *user_record_read(void *request, const struct store_bytes *bytes)
{
	Social__UserRecord *record =
	    bytes->data ? social__user_record__unpack(NULL, bytes->len, bytes->data) : NULL;
	Social__UserRecord *copy = social_copy(request, record);

	if (record)
		social__user_record__free_unpacked(record, NULL);
	return copy;
}

struct lookup {
	void *request, *state;
	user_found_fn *found;
};

static void got_user(const struct store_result *result, void *lookup)
{
	struct lookup *l = lookup;
	Social__UserRecord *record = result->n ? user_record_read(l->request, result->value) : NULL;

	if (record)
		l->found(record, l->state);
	else if (result->status == LEND_OK)
		social_fail(l->request, LEND_NOT_FOUND, "no such user");
	else
		social_fail(l->request, result->status, "users cannot be read");
}

void user_record_find(void *request, struct store *store, const char *name, user_found_fn *found,
		      void *state)
{
	struct lookup *l = social_memory(request, sizeof(*l));
	const char *key = user_key(request, name);

	*l = (struct lookup){.request = request, .state = state, .found = found};
	store_get(store, &key, 1, got_user, l);
}
