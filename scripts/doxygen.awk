# Doxygen's filter (Doxyfile): makes the plain comments of a header comments that Doxygen reads, line by line. The first
# one describes the file, one of its own what follows it, and one behind code what stands before it. Doxygen's own
# markup has no meaning here.
function plain(text) {
  gsub(/[\\@<>#%&"]/, "\\\\&", text)
  return text
}

function column(text) {
  return match(text, /\/\//)
}

# The line before this one, held back for the command that ends the first comment.
function say(end) {
  if (NR > 1) print held end
}

/^ *\/\// {
  say("")
  goes_on = behind && column($0) == behind
  behind = goes_on ? behind : 0
  held = substr($0, 1, column($0) - 1) "///" (goes_on ? "<" : "") plain(substr($0, column($0) + 2))
  next
}

{
  say(described ? "" : " \\file")
  described = 1
  held = $0
  behind = 0
  if (match($0, /[;,{})] +\/\/ /) && $0 !~ /^}/) {
    behind = column($0)
    held = substr($0, 1, behind - 1) "///<" plain(substr($0, behind + 2))
  }
}

END { print held }
