-- What a person does in Neovim. `EDITOR_STEP` names a step; its answer is written to the file `EDITOR_ANSWER` as JSON.
-- The settings are those of editors/neovim/orchestra.lua.

vim.cmd("filetype on")
vim.g.orchestra_command = { vim.env.EDITOR_PROGRAM, "lsp" }
dofile(vim.env.EDITOR_SETTINGS)

local file = "pr_review.dot"

local function wait(what, condition)
  local found
  local ok = vim.wait(30000, function()
    found = condition()
    return found
  end, 20)
  if not ok then
    error("never: " .. what)
  end
  return found
end

local function open(name)
  vim.cmd("edit " .. name)
  wait("a client of " .. name, function()
    local clients = vim.lsp.get_clients and vim.lsp.get_clients({ bufnr = 0 }) or vim.lsp.buf_get_clients(0)
    return next(clients) and select(2, next(clients)).initialized
  end)
end

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, true), "\n") .. "\n"
end

-- Places the cursor at the n-th character of the first occurrence of a text.
local function go_to(wanted, offset)
  for number, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, true)) do
    local at = line:find(wanted, 1, true)
    if at then
      vim.api.nvim_win_set_cursor(0, { number, at - 1 + offset })
      return
    end
  end
  error("the buffer has no " .. wanted)
end

-- Returns the errors and warnings as `LINE:COLUMN CODE`, in order. The example has a note, for its handler is in Rust.
local function diagnostics()
  local found = {}
  local severity = { min = vim.diagnostic.severity.WARN }
  for _, one in ipairs(vim.diagnostic.get(0, { severity = severity })) do
    local code = one.code or one.user_data.lsp.code
    table.insert(found, string.format("%d:%d %s", one.lnum + 1, one.col + 1, code))
  end
  table.sort(found)
  return found
end

local function wait_for_diagnostics()
  return wait("diagnostics", function()
    local found = diagnostics()
    return #found > 0 and found
  end)
end

local function wait_for_none()
  wait("no errors and warnings", function()
    return #diagnostics() == 0
  end)
end

local function format()
  if vim.lsp.buf.format then
    vim.lsp.buf.format({ timeout_ms = 30000 })
  else
    vim.lsp.buf.formatting_sync(nil, 30000)
  end
end

local steps = {}

function steps.diagnostics()
  open(file)
  return wait_for_diagnostics()
end

function steps.configuration()
  open("orchestra.yaml")
  return wait_for_diagnostics()
end

-- The diagnostic that a typing error causes, and its end when it is corrected.
function steps.typing()
  open(file)
  go_to("collect -> critic", #"collect -> ")
  vim.cmd("normal! cwcritc")
  local found = wait_for_diagnostics()
  vim.cmd("normal! u")
  wait_for_none()
  return found
end

function steps.fix()
  open(file)
  wait_for_diagnostics()
  go_to("collect -> critc", #"collect -> ")
  local titles = {}
  vim.ui.select = function(items, _, on_choice)
    for _, item in ipairs(items) do
      -- An item is an action, or a pair of client and action.
      table.insert(titles, (item.action or item[2] or item).title)
    end
    on_choice(items[1], 1)
  end
  vim.lsp.buf.code_action()
  wait("the fixed text", function()
    return text():find("collect -> critic\n", 1, true)
  end)
  wait_for_none()
  return { titles = titles, text = text() }
end

function steps.hover()
  open(file)
  go_to("goal_gate=true", 2)
  vim.lsp.buf.hover()
  local window = wait("a floating window", function()
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      if vim.api.nvim_win_get_config(window).relative ~= "" then
        return window
      end
    end
  end)
  local buffer = vim.api.nvim_win_get_buf(window)
  return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, true), "\n")
end

function steps.rename()
  open(file)
  go_to("collect -> critic", 2)
  local before = text()
  vim.lsp.buf.rename("gather")
  wait("the renamed text", function()
    return text() ~= before
  end)
  return text()
end

function steps.format()
  open(file)
  format()
  return text()
end

local ok, answer = xpcall(steps[vim.env.EDITOR_STEP], debug.traceback)
local output = assert(io.open(vim.env.EDITOR_ANSWER, "w"))
output:write(vim.json.encode(ok and { answer = answer } or { error = answer, log = vim.fn.execute("messages") }))
output:close()
vim.cmd("qall!")
