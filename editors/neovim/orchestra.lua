-- Orchestra for Neovim 0.7 and later. Copy this file to ~/.config/nvim/plugin/.
--
-- `vim.g.orchestra_command` is the command that starts the language server; the default is { "orchestra", "lsp" }.

local configuration = "orchestra.yaml"

-- Returns the innermost folder above a file that has a configuration, else a repository, else its own folder.
local function root(file)
  local folder = vim.fn.fnamemodify(file, ":p:h")
  for _, marker in ipairs({ configuration, ".git" }) do
    local at = folder
    while true do
      if (vim.uv or vim.loop).fs_stat(at .. "/" .. marker) then
        return at
      end
      local parent = vim.fn.fnamemodify(at, ":h")
      if parent == at then
        break
      end
      at = parent
    end
  end
  return folder
end

local function is_served(buffer)
  local file = vim.api.nvim_buf_get_name(buffer)
  if file == "" or vim.bo[buffer].buftype ~= "" then
    return false
  end
  return vim.bo[buffer].filetype == "dot"
    or vim.fn.fnamemodify(file, ":t") == configuration
    or file:find("/prompts/.+%.ya?ml$") ~= nil
end

-- The clients by their root, for Neovim 0.7.
local clients = {}

local function start(buffer)
  if not is_served(buffer) then
    return
  end
  local folder = root(vim.api.nvim_buf_get_name(buffer))
  local config = {
    name = "orchestra",
    cmd = vim.g.orchestra_command or { "orchestra", "lsp" },
    root_dir = folder,
    workspace_folders = { { uri = vim.uri_from_fname(folder), name = folder } },
  }
  if vim.lsp.start then
    vim.lsp.start(config, { bufnr = buffer })
    return
  end
  local client = clients[folder]
  if not client or vim.lsp.client_is_stopped(client) then
    client = vim.lsp.start_client(config)
    clients[folder] = client
  end
  if client then
    vim.lsp.buf_attach_client(buffer, client)
  end
end

vim.api.nvim_create_autocmd("FileType", {
  pattern = { "dot", "yaml" },
  callback = function(event)
    start(event.buf)
  end,
})
