// Small pieces of text for people: tables, durations, suggestions for names. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

// Columns aligned to the left, two spaces apart, no trailing blanks; the first row is the heading. Counts UTF-8
// characters, not bytes. Control characters in cells become spaces.
std::string table(const std::vector<std::vector<std::string>>& rows);

// "0:42", "12:05", "1:02:05"; negative counts as 0.
std::string clock_time(double seconds);
// Ages as kubectl prints them: "42s", "5m", "3h", "2d".
std::string age(double seconds);

// The one of `names` nearest to `word`; "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

// At most `bytes` of `text` without cutting a UTF-8 character, "..." at the end if it was cut.
std::string shortened(const std::string& text, size_t bytes);

// Control characters but newline and tab become '?', so that the output of a program cannot change the terminal. Blanks
// and newlines at the end are removed.
std::string printable(std::string_view text);

// `text` as it stands in XML, also between double quotes. Control characters become blanks.
std::string xml_text(const std::string& text);

}  // namespace lockstep::cli
