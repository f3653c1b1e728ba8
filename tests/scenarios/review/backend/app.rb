class App
end
