#include "trainer/checkpoint/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "trainer/checkpoint/files.h"

namespace lockstep::trainer::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as little-endian machines hold them");

constexpr size_t kAlign = 64;
constexpr size_t kAtOnce = size_t{1} << 20;  // of a tensor that is reordered

std::optional<DataType> type_from(const std::string& name) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBFloat16,
                              DataType::kInt64, DataType::kInt32, DataType::kUint8}) {
    if (name == safetensors_name(type)) return type;
  }
  return std::nullopt;
}

Error corrupt(const std::string& what) {
  return fail(ErrorCode::kCorrupt, "not a safetensors file: " + what);
}

Result<TensorEntry> parse_entry(const std::string& name, const nlohmann::json& value, std::uint64_t data_begin) {
  const auto bad = [&](const char* what) { return corrupt(fmt::format("tensor '{}' {}", name, what)); };
  if (!value.is_object()) return bad("is not described by an object");
  const auto type = value.find("dtype");
  const auto shape = value.find("shape");
  const auto offsets = value.find("data_offsets");
  if (type == value.end() || !type->is_string()) return bad("has no dtype");
  if (shape == value.end() || !shape->is_array()) return bad("has no shape");
  if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2 || !(*offsets)[0].is_number_unsigned() ||
      !(*offsets)[1].is_number_unsigned()) {
    return bad("has no data_offsets");
  }
  TensorEntry entry;
  entry.name = name;
  const auto known = type_from(type->get<std::string>());
  if (!known) return bad("has a dtype that this program does not know");
  entry.type = *known;
  for (const auto& dimension : *shape) {
    if (!dimension.is_number_unsigned() ||
        dimension.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return bad("has a shape that is not a list of sizes");
    }
    entry.shape.push_back(dimension.get<std::int64_t>());
  }
  const auto begin = (*offsets)[0].get<std::uint64_t>();
  const auto end = (*offsets)[1].get<std::uint64_t>();
  auto bytes = bytes_of(entry.type, entry.shape);
  if (!bytes || end < begin || end - begin != *bytes) return bad("has data_offsets that do not fit its shape");
  if (end > std::numeric_limits<std::uint64_t>::max() - data_begin) return bad("lies outside the file");
  entry.begin = data_begin + begin;
  entry.end = data_begin + end;
  return entry;
}

// The bytes of a tensor in the order of its stored form.
Status append(NewFile& file, const NamedTensor& tensor) {
  if (!tensor.stored.reorders()) return file.append(tensor.bytes);
  const size_t width = size_of(tensor.type);
  std::vector<std::byte> chunk(std::min(tensor.bytes.size(), kAtOnce / width * width));
  for (size_t done = 0; done < tensor.bytes.size(); done += chunk.size()) {
    const std::span part = std::span(chunk).first(std::min(chunk.size(), tensor.bytes.size() - done));
    gather(tensor.stored, width, tensor.bytes, done / width, part);
    LOCKSTEP_CHECK_OK(file.append(part));
  }
  return {};
}

}  // namespace

Result<std::uint64_t> bytes_of(DataType type, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = size_of(type);
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return fail(ErrorCode::kInvalid, "a shape has a negative dimension");
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dimension), &bytes)) {
      return fail(ErrorCode::kInvalid, "a shape has more elements than memory can hold");
    }
  }
  return bytes;
}

Status validate(const std::vector<NamedTensor>& tensors) {
  std::set<std::string_view> names, stored_names;
  for (const NamedTensor& tensor : tensors) {
    const std::string& stored = stored_name(tensor);
    if (tensor.name.empty() || stored == "__metadata__" || !names.insert(tensor.name).second ||
        !stored_names.insert(stored).second) {
      return fail(ErrorCode::kInvalid, fmt::format("the tensor name '{}' is empty, reserved or a duplicate", stored));
    }
    auto bytes = bytes_of(tensor.type, tensor.shape);
    if (!bytes) return bytes.error().in(fmt::format("tensor '{}'", tensor.name));
    if (*bytes != tensor.bytes.size()) {
      return fail(ErrorCode::kInvalid, fmt::format("tensor '{}' has {} bytes where its shape needs {}", tensor.name,
                                                   tensor.bytes.size(), *bytes));
    }
    if (const Status form = check(tensor.stored, *bytes / size_of(tensor.type)); !form) {
      return form.error().in(fmt::format("tensor '{}'", tensor.name));
    }
  }
  return {};
}

Result<std::string> safetensors_header(const std::vector<NamedTensor>& tensors) {
  LOCKSTEP_CHECK_OK(validate(tensors));
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}, {"producer", "lockstep"}};
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    header[stored_name(tensor)] = {{"dtype", safetensors_name(tensor.type)},
                                   {"shape", stored_shape(tensor)},
                                   {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string json;
  try {
    json = header.dump();
  } catch (const nlohmann::json::exception&) {
    return fail(ErrorCode::kInvalid, "a tensor name is not UTF-8");
  }
  json.resize((json.size() + 8 + kAlign - 1) / kAlign * kAlign - 8, ' ');
  if (json.size() > kMostHeaderBytes) {
    return fail(ErrorCode::kInvalid,
                fmt::format("the names and shapes of {} tensors need {} bytes, at most {} are read", tensors.size(),
                            json.size(), kMostHeaderBytes));
  }
  std::string text(8, '\0');
  const std::uint64_t length = json.size();
  std::memcpy(text.data(), &length, sizeof length);
  return text + json;
}

Result<std::vector<TensorEntry>> parse_safetensors_header(std::string_view text, std::uint64_t file_bytes) {
  if (text.size() < 8 || file_bytes < 8) return corrupt("it is shorter than its header");
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof length);
  if (length > file_bytes - 8 || length > text.size() - 8) return corrupt("it is shorter than its header");
  const auto header = nlohmann::json::parse(text.substr(8, length), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return corrupt("its header is no JSON object");
  std::vector<TensorEntry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    LOCKSTEP_TRY(TensorEntry entry, parse_entry(name, value, 8 + length));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  std::uint64_t at = 8 + length;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != at) return corrupt("its tensors overlap or leave gaps");
    at = entry.end;
  }
  if (at != file_bytes) return corrupt(fmt::format("its tensors need {} bytes and it has {}", at, file_bytes));
  return entries;
}

Result<FileDigest> write_safetensors(const std::string& folder, const std::string& name,
                                     const std::vector<NamedTensor>& tensors) {
  LOCKSTEP_TRY(const std::string header, safetensors_header(tensors));
  LOCKSTEP_TRY(const auto file, NewFile::create(folder, name));
  LOCKSTEP_CHECK_OK(file->append(header));
  for (const NamedTensor& tensor : tensors) LOCKSTEP_CHECK_OK(append(*file, tensor));
  return file->commit();
}

Result<std::vector<TensorEntry>> read_safetensors_entries(const std::string& folder, const std::string& name,
                                                          std::uint64_t most) {
  const std::string path = folder + "/" + name;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return file_error("cannot read " + path, errno);
  struct stat status {};
  std::uint64_t length = 0;
  std::string text(8, '\0');
  bool whole = ::fstat(fd, &status) == 0 && ::pread(fd, text.data(), 8, 0) == 8;
  if (whole) {
    std::memcpy(&length, text.data(), sizeof length);
    whole = length <= static_cast<std::uint64_t>(status.st_size);
  }
  if (whole && length > most) {
    ::close(fd);
    return corrupt(fmt::format("its header has {} bytes, at most {} are read", length, most)).in(path);
  }
  if (whole) {
    text.resize(8 + length);
    size_t done = 8;
    while (done < text.size()) {
      const ssize_t n = ::pread(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    whole = done == text.size();
  }
  ::close(fd);
  if (!whole) return corrupt("it is shorter than its header").in(path);
  auto entries = parse_safetensors_header(text, static_cast<std::uint64_t>(status.st_size));
  if (!entries) return entries.error().in(path);
  return entries;
}

}  // namespace lockstep::trainer::checkpoint
