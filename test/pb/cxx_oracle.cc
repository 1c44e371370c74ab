#include "pb/cxx_oracle.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>

#include "every.pb.h"
#include "every2.pb.h"

extern "C" {
#include "util/utf8.h"
}

using namespace google::protobuf;

/* Ends strings at their first zero byte, as they end in C. Returns whether one is not UTF-8. */
static bool end_strings(Message *m)
{
	const Reflection *r = m->GetReflection();
	std::vector<const FieldDescriptor *> fields;
	bool bad = false;

	r->ListFields(*m, &fields);
	for (const FieldDescriptor *f : fields) {
		int n = f->is_repeated() ? r->FieldSize(*m, f) : 1;

		for (int i = 0; i < n; i++) {
			if (f->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
				bad |= end_strings(f->is_repeated()
						       ? r->MutableRepeatedMessage(m, f, i)
						       : r->MutableMessage(m, f));
			} else if (f->type() == FieldDescriptor::TYPE_STRING) {
				std::string s = f->is_repeated() ? r->GetRepeatedString(*m, f, i)
								 : r->GetString(*m, f);

				bad |= !lend_utf8_valid((const uint8_t *)s.data(), s.size());
				s = s.c_str();
				if (f->is_repeated())
					r->SetRepeatedString(m, f, i, s);
				else
					r->SetString(m, f, s);
			}
		}
	}
	return bad;
}

bool oracle_reparse(const char *type, const void *bytes, size_t len, void **out, size_t *out_len,
		    bool *bad_utf8)
{
	static LogSilencer silent;
	static const bool linked = lend_test::Every::descriptor() && lend_test2::Every2::descriptor();
	const Descriptor *d = DescriptorPool::generated_pool()->FindMessageTypeByName(type);
	std::unique_ptr<Message> m(MessageFactory::generated_factory()->GetPrototype(d)->New());
	std::string text;

	(void)silent, (void)linked;
	if (!m->ParseFromArray(bytes, (int)len))
		return false;
	*bad_utf8 = end_strings(m.get());
	{
		io::StringOutputStream stream(&text);
		io::CodedOutputStream coded(&stream);

		coded.SetSerializationDeterministic(true);
		m->SerializeToCodedStream(&coded);
	}
	*out = malloc(text.size() + 1);
	memcpy(*out, text.data(), text.size());
	*out_len = text.size();
	return true;
}

static DescriptorPool *added_files()
{
	static DescriptorPool pool;

	return &pool;
}

bool oracle_add_file(const void *bytes, size_t len)
{
	FileDescriptorProto file;

	return file.ParseFromArray(bytes, (int)len) && added_files()->BuildFile(file);
}

/* Everything about a field that counts, as a text. */
static std::string text_of(const FieldDescriptor *f)
{
	const OneofDescriptor *oneof = f->containing_oneof();
	std::string text = std::string(f->name()) + " " + std::to_string(f->number()) + " " + f->json_name() +
			   " " + std::to_string(f->type()) + " " + std::to_string(f->label()) +
			   (f->is_packed() ? " packed" : "") + (f->is_map() ? " map" : "") +
			   (f->has_presence() ? " presence" : "");

	if (f->message_type())
		text += " " + f->message_type()->full_name();
	if (f->enum_type())
		text += " " + f->enum_type()->full_name();
	for (int i = 0; oneof && i < oneof->field_count(); i++)
		text += "|" + oneof->field(i)->name();
	return text;
}

static std::string text_of(const Descriptor *m)
{
	std::string text = std::to_string(m->file()->syntax()) + "\n";

	for (int number = 0; number < 3000; number++)
		if (const FieldDescriptor *f = m->FindFieldByNumber(number))
			text += text_of(f) + "\n";
	return text + std::to_string(m->field_count());
}

static std::string text_of(const ServiceDescriptor *s)
{
	std::string text;

	for (int i = 0; i < s->method_count(); i++)
		text += s->method(i)->name() + " " + s->method(i)->input_type()->full_name() + " " +
			s->method(i)->output_type()->full_name() + " " +
			std::to_string(s->method(i)->client_streaming()) +
			std::to_string(s->method(i)->server_streaming()) + "\n";
	return text;
}

static std::string text_of(const EnumDescriptor *e)
{
	std::string text;

	for (int number = -10; number < 10; number++)
		if (const EnumValueDescriptor *v = e->FindValueByNumber(number))
			text += std::to_string(number) + " " + v->name() + "\n";
	return text + std::to_string(e->value_count());
}

static std::string text_of(const DescriptorPool *pool, const char *name)
{
	if (const Descriptor *m = pool->FindMessageTypeByName(name))
		return text_of(m);
	if (const EnumDescriptor *e = pool->FindEnumTypeByName(name))
		return text_of(e);
	const ServiceDescriptor *s = pool->FindServiceByName(name);
	return s ? text_of(s) : "none";
}

const char *oracle_compare(const char *full_name)
{
	static const bool linked = lend_test::Every::descriptor() && lend_test2::Every2::descriptor();
	static std::string difference;
	std::string made = text_of(added_files(), full_name);
	std::string real = text_of(DescriptorPool::generated_pool(), full_name);

	(void)linked;
	difference = made + "\nnot\n" + real;
	return made == real ? nullptr : difference.c_str();
}
