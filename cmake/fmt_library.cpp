// The functions of fmt that its headers only declare, compiled once (cmake/libraries.cmake).
#include <fmt/format-inl.h>

namespace fmt::detail {

// Declared `extern template` in the headers.
template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template thousands_sep_result<wchar_t> thousands_sep_impl<wchar_t>(locale_ref);
template char decimal_point_impl(locale_ref);
template wchar_t decimal_point_impl(locale_ref);

}  // namespace fmt::detail
